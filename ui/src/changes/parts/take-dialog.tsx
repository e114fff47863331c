import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { changesQuery, workspacesQuery } from "@/api/queries";
import { bytes, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { inputClass } from "@/kit/field";
import { Busy, Failure, FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import type { Acting } from "./act";

type OnConflict = "refuse" | "keep_both" | "overwrite";

const WORDS = {
  same: tr`same in this workspace`,
  new: "new",
  changed: "changed",
  deleted: tr`deleted there`,
  conflict: tr`also changed in this workspace`,
} as const;

/** Files of another workspace: which, what would happen to each, then taken. */
export default function TakeDialog({ acting, onClose }: { acting: Acting; onClose: () => void }) {
  const team = useTeam();
  const w = acting.workspace;
  const all = useQuery(workspacesQuery(team.slug, "active"));
  const others = (all.data ?? []).filter((o) => o.id !== w.id && o.project_id === w.project_id);
  const [from, setFrom] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [onConflict, setOnConflict] = useState<OnConflict>("keep_both");
  const changes = useQuery({ ...changesQuery(from), enabled: from !== "" });
  const ask = (dry: boolean, revision?: string) =>
    data(
      api.POST("/workspaces/{id}/take", {
        params: { path: { id: w.id } },
        body: {
          from_workspace: from,
          revision: revision ?? "now",
          paths: [...chosen],
          on_conflict: onConflict,
          dry_run: dry,
        },
      }),
    );
  const preview = useMutation({ mutationFn: () => ask(true) });
  const take = useMutation({
    mutationFn: () => ask(false, preview.data?.commit),
    onSuccess: (t) => {
      const n = t.items.filter((i) => i.state !== "same").length;
      toast({
        kind: "good",
        title: tr`Copied ${plural(n, { one: "# file", other: "# files" })}`,
        text: tr`A snapshot of all files was saved first.`,
      });
      acting.done();
      acting.refresh();
      onClose();
    },
  });
  const toggle = (path: string) => {
    preview.reset();
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(path)) next.add(path);
      return next;
    });
  };
  const conflicts = preview.data?.items.some((i) => i.state === "conflict");
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={tr`Copy files from another workspace`}
      about={tr`As they are there now, even while its agent works. The other workspace does not change.`}
    >
      <DialogBody>
        <label className="flex flex-col gap-1">
          <span>
            <Trans>From</Trans>
          </span>
          <select
            className={inputClass}
            value={from}
            onChange={(e) => {
              setFrom(e.target.value);
              setChosen(new Set());
              preview.reset();
            }}
          >
            <option value="">
              <Trans>Choose a workspace in this project</Trans>
            </option>
            {others.map((o) => (
              <option key={o.id} value={o.id}>
                {o.key} {o.name}
              </option>
            ))}
          </select>
        </label>
        {from !== "" && changes.isPending && (
          <Busy>
            <Trans>Loading its changes…</Trans>
          </Busy>
        )}
        {changes.isError && (
          <Failure
            what={tr`Its changes could not be loaded.`}
            error={changes.error}
            retry={() => void changes.refetch()}
          />
        )}
        {from !== "" && changes.data && !preview.data && (
          <fieldset className="mt-3">
            <legend>
              <Trans>Files it changed</Trans>
            </legend>
            {changes.data.items.length === 0 && (
              <p className="text-fg2">
                <Trans>It has no changes.</Trans>
              </p>
            )}
            <ul className="max-h-64 overflow-y-auto">
              {changes.data.items.slice(0, 2000).map((c) => (
                <li key={c.path}>
                  <label className="flex min-h-7 items-center gap-2">
                    <input type="checkbox" checked={chosen.has(c.path)} onChange={() => toggle(c.path)} />
                    <span className="truncate font-mono text-code">{visible(c.path)}</span>
                    <span className="text-meta text-fg3">{c.status.replace("_", " ")}</span>
                  </label>
                </li>
              ))}
            </ul>
          </fieldset>
        )}
        {preview.data && (
          <ul className="mt-3 flex flex-col gap-1" aria-label={tr`Preview`}>
            {preview.data.items.map((i) => (
              <li key={i.path} className="flex items-baseline gap-2">
                <span className="truncate font-mono text-code">{visible(i.path)}</span>
                <span className={i.state === "conflict" ? "text-meta text-needs" : "text-meta text-fg3"}>
                  {WORDS[i.state]}
                  {i.state === "new" && `, ${bytes(i.size)}`}
                </span>
              </li>
            ))}
          </ul>
        )}
        {conflicts && (
          <label className="mt-3 flex flex-col gap-1">
            <span>
              <Trans>Files changed in both</Trans>
            </span>
            <select
              className={inputClass}
              value={onConflict}
              onChange={(e) => setOnConflict(e.target.value as OnConflict)}
            >
              <option value="keep_both">
                <Trans>Keep both: save theirs under a new name</Trans>
              </option>
              <option value="overwrite">
                <Trans>Overwrite mine (saved in a snapshot)</Trans>
              </option>
              <option value="refuse">
                <Trans>Skip these files</Trans>
              </option>
            </select>
          </label>
        )}
        <FormError error={preview.error ?? take.error} />
      </DialogBody>
      <DialogFoot>
        {preview.data ? (
          <>
            <Button onClick={() => preview.reset()}>
              <Trans>Back</Trans>
            </Button>
            <Button look="primary" busy={take.isPending && tr`Copying`} onClick={() => take.mutate()}>
              <Trans>
                Copy{" "}
                {plural(preview.data.items.filter((i) => i.state !== "same").length, {
                  one: "# file",
                  other: "# files",
                })}
              </Trans>
            </Button>
          </>
        ) : (
          <Button
            look="primary"
            disabled={chosen.size === 0}
            busy={preview.isPending && tr`Looking`}
            onClick={() => preview.mutate()}
          >
            <Trans>Preview {plural(chosen.size, { one: "# file", other: "# files" })}</Trans>
          </Button>
        )}
      </DialogFoot>
    </Dialog>
  );
}
