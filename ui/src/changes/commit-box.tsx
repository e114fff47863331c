import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, type ChangeSet, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

/** A commit of all files lists them one by one up to this many. */
const NAME_UP_TO = 5000;

/** Commits the chosen files. */
export function CommitBox({
  workspace: w,
  live,
  unchecked,
}: {
  workspace: Workspace;
  live: ChangeSet;
  unchecked: ReadonlySet<string>;
}) {
  const team = useTeam();
  const client = useQueryClient();
  const [message, setMessage] = useState("");
  const open = live.items.filter((c) => !c.committed);
  const chosen = open.filter((c) => !unchecked.has(c.path));
  const conflicted = chosen.filter((c) => c.status === "conflicted").map((c) => visible(c.path));
  const commit = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/commit", {
          params: { path: { id: w.id } },
          body: {
            message: message.trim(),
            // Listed explicitly, so a file that appears right now, which nobody reviewed, is not committed.
            ...(chosen.length === open.length && chosen.length > NAME_UP_TO
              ? {}
              : { paths: [...new Set(chosen.flatMap((c) => (c.old_path ? [c.old_path, c.path] : [c.path])))] }),
          },
        }),
      ),
    onSuccess: (c) => {
      setMessage("");
      toast({ kind: "good", title: t`Committed ${short(c.commit)}`, text: c.subject });
      void client.invalidateQueries({ queryKey: keys.changes(w.id) });
      void client.invalidateQueries({ queryKey: keys.commits(w.id) });
    },
  });
  if (open.length === 0)
    return (
      <p className="border-t border-hairline bg-bg1 px-3 py-2 text-meta text-fg3">
        {live.items.length > 0 ? t`Everything is committed.` : t`Nothing to commit.`}
      </p>
    );
  const ready = message.trim() !== "" && chosen.length > 0;
  const go = () => {
    if (ready && !commit.isPending) commit.mutate();
  };
  return (
    <form
      aria-label={t`Commit`}
      className="flex flex-col gap-2 border-t border-hairline bg-bg1 p-3"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
      onKeyDown={(e) => {
        if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
          e.preventDefault();
          go();
        }
      }}
    >
      <textarea
        id="commit-message"
        aria-label={t`Commit message`}
        placeholder={t`Commit message`}
        rows={2}
        value={message}
        onChange={(e) => setMessage(e.target.value)}
        className={`${inputClass} h-auto resize-y py-1.5`}
      />
      {conflicted.length > 0 && (
        <p className="text-meta break-words text-needs">
          <Trans>
            Conflicts: <span className="font-mono break-all">{conflicted.slice(0, 3).join(", ")}</span>
            {conflicted.length > 3 && t` and ${plural(conflicted.length - 3, { one: "# other", other: "# others" })}`}.{" "}
            <Link
              to="/$team/w/$key"
              params={{ team: team.slug, key: w.key }}
              search={{ tab: "merge" }}
              className="text-accent underline"
            >
              Resolve it
            </Link>{" "}
            first.
          </Trans>
        </p>
      )}
      <FormError error={commit.error} />
      <Button type="submit" keys="mod+enter" disabled={!ready} busy={commit.isPending && t`Committing`}>
        <Trans>
          Commit{" "}
          {chosen.length === open.length
            ? plural(chosen.length, { one: "# file", other: "# files" })
            : t`${chosen.length} of ${plural(open.length, { one: "# file", other: "# files" })}`}
        </Trans>
      </Button>
    </form>
  );
}
