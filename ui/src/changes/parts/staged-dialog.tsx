import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { inputClass } from "@/kit/field";
import { Busy, Failure, FormError } from "@/kit/states";
import { toast } from "@/state/toasts";
import { type Acting, indexKey, type Part } from "./act";

/** What is staged: looked at hunk by hunk, taken out again, committed. */
export default function StagedDialog({ acting, onClose }: { acting: Acting; onClose: () => void }) {
  const id = acting.workspace.id;
  const client = useQueryClient();
  const [message, setMessage] = useState("");
  const index = useQuery({
    queryKey: [...indexKey(id), "dialog"],
    queryFn: () => data(api.GET("/workspaces/{id}/index", { params: { path: { id } } })),
  });
  const staged = (index.data?.items ?? []).filter((f) => f.staged !== "");
  const commit = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/commit", {
          params: { path: { id } },
          body: { message: message.trim(), staged: true },
        }),
      ),
    onSuccess: (c) => {
      toast({ kind: "good", title: t`Committed ${short(c.commit)}`, text: c.subject });
      acting.done();
      void client.invalidateQueries({ queryKey: keys.commits(id) });
      onClose();
    },
  });
  const ready = message.trim() !== "" && staged.length > 0;
  return (
    <Dialog open wide onClose={onClose} title={t`Staged`} about={t`The next commit of staged changes contains these.`}>
      <DialogBody>
        {index.isPending ? (
          <Busy>
            <Trans>Loading the staged changes…</Trans>
          </Busy>
        ) : index.isError ? (
          <Failure
            what={t`The staged changes could not be loaded.`}
            error={index.error}
            retry={() => void index.refetch()}
          />
        ) : staged.length === 0 ? (
          <p className="text-fg2">
            <Trans>Nothing is staged.</Trans>
          </p>
        ) : (
          <ul className="flex flex-col gap-3">
            {staged.map((f) => (
              <StagedFile
                key={f.path}
                id={id}
                file={f}
                done={() => {
                  acting.done();
                  void index.refetch();
                }}
              />
            ))}
          </ul>
        )}
        <FormError error={commit.error} />
      </DialogBody>
      <DialogFoot>
        <textarea
          aria-label={t`Commit message`}
          placeholder={t`Commit message`}
          rows={1}
          value={message}
          onChange={(e) => setMessage(e.target.value)}
          className={`${inputClass} h-auto min-w-0 flex-1 resize-y py-1.5`}
        />
        <Button
          look="primary"
          disabled={!ready}
          busy={commit.isPending && t`Committing`}
          onClick={() => commit.mutate()}
        >
          <Trans>Commit {plural(staged.length, { one: "# staged file", other: "# staged files" })}</Trans>
        </Button>
      </DialogFoot>
    </Dialog>
  );
}

function StagedFile({ id, file: f, done }: { id: string; file: Schemas["IndexFile"]; done: () => void }) {
  const [open, setOpen] = useState(false);
  const hunks = useQuery({
    queryKey: [...indexKey(id), "hunks", f.path],
    queryFn: () =>
      data(
        api.GET("/workspaces/{id}/parts", {
          params: { path: { id }, query: { path: f.path, from: "head", to: "index" } },
        }),
      ),
    enabled: open,
  });
  const unstage = useMutation({
    mutationFn: (part: Part) =>
      data(
        api.POST("/workspaces/{id}/stage", {
          params: { path: { id } },
          body: { parts: [part], unstage: true },
        }),
      ),
    onSettled: () => {
      done();
      if (open) void hunks.refetch();
    },
  });
  const name = visible(f.path);
  return (
    <li className="rounded-md border border-hairline">
      <div className="flex items-center gap-2 px-2 py-1">
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="min-h-6 min-w-0 flex-1 truncate text-left font-mono text-code"
          title={name}
        >
          {name}
        </button>
        <span className="text-meta text-fg3">
          {f.staged.replace("_", " ")}
          {f.unstaged && t`, more not staged`}
        </span>
        <Button
          look="quiet"
          aria-label={t`Unstage ${name}`}
          busy={unstage.isPending && t`Unstaging`}
          onClick={() => unstage.mutate({ path: f.path })}
        >
          <Trans>Unstage</Trans>
        </Button>
      </div>
      <FormError error={unstage.error} />
      {open && hunks.isError && (
        <Failure what={t`It could not be read.`} error={hunks.error} retry={() => void hunks.refetch()} />
      )}
      {open && hunks.data?.whole_only && (
        <p className="px-2 pb-2 text-meta text-fg3">
          <Trans>The whole file is staged.</Trans>
        </p>
      )}
      {open &&
        hunks.data?.hunks.map(({ removed, added, ...h }) => (
          <div key={h.hash} className="border-t border-hairline">
            <div className="flex items-center gap-2 px-2 text-meta text-fg3">
              <span className="flex-1">
                <Trans>line {Math.max(h.new_start, 1)}</Trans>
              </span>
              <Button
                look="quiet"
                aria-label={t`Unstage hunk at line ${Math.max(h.new_start, 1)} of ${name}`}
                disabled={unstage.isPending}
                onClick={() => unstage.mutate({ path: f.path, hunks: [h] })}
              >
                <Trans>Unstage hunk</Trans>
              </Button>
            </div>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
            <pre tabIndex={0} className="max-h-48 overflow-auto px-2 pb-2 font-mono text-code">
              {removed.map((l) => `- ${visible(l)}\n`).join("")}
              {added.map((l) => `+ ${visible(l)}\n`).join("")}
            </pre>
          </div>
        ))}
    </li>
  );
}
