import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas, type Session, type Workspace } from "@/api/client";
import { fieldError } from "@/api/problem";
import { linksQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Field, inputClass, TextField } from "@/kit/field";
import { Once } from "@/kit/once";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { LinkRow } from "./link-row";

interface Props {
  session: Session;
  workspace: Workspace;
  onClose: () => void;
}

/** Creates and revokes share links: view one session without signing in. Each link is shown only once. */
export default function ShareDialog({ session, workspace, onClose }: Props) {
  const client = useQueryClient();
  const list = useQuery(linksQuery(session.id));
  const [name, setName] = useState("");
  const [minutes, setMinutes] = useState("60");
  const [made, setMade] = useState<Schemas["CreatedWatchLink"] | undefined>();
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/sessions/{id}/links", {
          params: { path: { id: session.id } },
          body: { name: name.trim(), minutes: Number(minutes) },
        }),
      ),
    onSuccess: (link) => {
      setMade(link);
      setName("");
      void client.invalidateQueries({ queryKey: ["links"] });
    },
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Share ${session.agent_name}`}
      about={`${workspace.key} ${workspace.name}. Anyone with the link can see this terminal and its scrollback without signing in. They cannot type or see anything else.`}
    >
      <DialogBody className="flex flex-col gap-4 pb-5">
        {made ? (
          <Once text={made.url} label="the link" onDone={() => setMade(undefined)} />
        ) : (
          <form
            className="flex flex-wrap items-start gap-3"
            onSubmit={(e) => {
              e.preventDefault();
              create.mutate();
            }}
          >
            <TextField
              fieldClass="min-w-40 flex-1"
              label="Name"
              maxLength={80}
              placeholder="Ann, for the review"
              value={name}
              error={fieldError(create.error, "name")}
              onChange={(e) => setName(e.target.value)}
            />
            <Field label="Expires" className="w-32">
              {(ids) => (
                <select {...ids} value={minutes} onChange={(e) => setMinutes(e.target.value)} className={inputClass}>
                  <option value="15">in 15 min</option>
                  <option value="60">in an hour</option>
                  <option value="480">in 8 hours</option>
                  <option value="1440">in a day</option>
                  <option value="10080">in 7 days</option>
                </select>
              )}
            </Field>
            <Button type="submit" look="primary" className="mt-6" busy={create.isPending && "Creating"}>
              Create link
            </Button>
            <div className="w-full empty:hidden">
              <FormError error={create.error && !fieldError(create.error, "name") ? create.error : null} />
            </div>
          </form>
        )}
        {list.isPending ? (
          <Skeleton rows={2} label="Loading the links" />
        ) : list.isError && !list.data ? (
          <Failure what="The links could not be loaded." error={list.error} retry={() => void list.refetch()} />
        ) : list.data.length === 0 ? (
          <p className="text-fg3">No links to this session.</p>
        ) : (
          <ul aria-label="Links to this session" className="divide-y divide-hairline border-y border-hairline">
            {list.data.map((l) => (
              <LinkRow key={l.id} link={l} />
            ))}
          </ul>
        )}
      </DialogBody>
    </Dialog>
  );
}
