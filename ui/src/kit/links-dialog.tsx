import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { useState } from "react";
import { fieldError } from "@/api/problem";
import { Button } from "./button";
import { Dialog, DialogBody } from "./dialog";
import { Field, inputClass, TextField } from "./field";
import { Once } from "./once";
import { Failure, FormError, Skeleton } from "./states";

interface Props<L> {
  title: string;
  about: string;
  /** What the links lead to, such as "this session". */
  subject: string;
  /** For how long a link may be valid: minutes, and that in words. */
  lifetimes: readonly (readonly [minutes: number, words: string])[];
  /** The minutes that are chosen at first. */
  usual: number;
  list: { data?: L[]; isPending: boolean; isError: boolean; error: unknown; refetch: () => unknown };
  create: {
    mutate: (link: { name: string; minutes: number }, on: { onSuccess: (made: { url: string }) => void }) => void;
    isPending: boolean;
    error: unknown;
  };
  row: (link: L) => ReactNode;
  onClose: () => void;
}

/** Creates and lists links that need no login. Each is shown only once. */
export function LinksDialog<L>({ title, about, subject, lifetimes, usual, list, create, row, onClose }: Props<L>) {
  const [name, setName] = useState("");
  const [minutes, setMinutes] = useState(String(usual));
  const [made, setMade] = useState<string>();
  const wrongName = fieldError(create.error, "name");
  return (
    <Dialog open onClose={onClose} title={title} about={about}>
      <DialogBody className="flex flex-col gap-4 pb-5">
        {made ? (
          <Once text={made} label={t`the link`} onDone={() => setMade(undefined)} />
        ) : (
          <form
            className="flex flex-wrap items-start gap-3"
            onSubmit={(e) => {
              e.preventDefault();
              create.mutate(
                { name: name.trim(), minutes: Number(minutes) },
                {
                  onSuccess: (link) => {
                    setMade(link.url);
                    setName("");
                  },
                },
              );
            }}
          >
            <TextField
              fieldClass="min-w-40 flex-1"
              label={t`Name`}
              maxLength={80}
              placeholder={t`Ann, for the review`}
              value={name}
              error={wrongName}
              onChange={(e) => setName(e.target.value)}
            />
            <Field label={t`Expires`} className="w-32">
              {(ids) => (
                <select {...ids} value={minutes} onChange={(e) => setMinutes(e.target.value)} className={inputClass}>
                  {lifetimes.map(([value, words]) => (
                    <option key={value} value={value}>
                      {words}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Button type="submit" look="primary" className="mt-6" busy={create.isPending && t`Creating`}>
              <Trans>Create link</Trans>
            </Button>
            <div className="w-full empty:hidden">
              <FormError error={create.error && !wrongName ? create.error : null} />
            </div>
          </form>
        )}
        {list.isPending ? (
          <Skeleton rows={2} label={t`Loading the links`} />
        ) : list.isError && !list.data ? (
          <Failure what={t`The links could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
        ) : list.data?.length ? (
          <ul aria-label={t`Links to ${subject}`} className="divide-y divide-hairline border-y border-hairline">
            {list.data.map(row)}
          </ul>
        ) : (
          <p className="text-fg3">
            <Trans>No links to {subject}.</Trans>
          </p>
        )}
      </DialogBody>
    </Dialog>
  );
}
