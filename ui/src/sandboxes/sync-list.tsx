import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { bytes, sentence, visible } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { type Conflict, type NotSynced, remoteKeys, settleConflict, syncQuery } from "./remote";

const MOST = 100; // maximum rows of unsynced files; the rest is counted

/** Unsynced files of a sandbox, and files changed on both sides. */
export function SyncList({ workspace: w }: { workspace: Workspace }) {
  const sync = useQuery(syncQuery(w.id));
  if (sync.isPending) return <Skeleton rows={2} label={t`Loading the files`} />;
  if (sync.isError && !sync.data)
    return <Failure what={t`The list could not be loaded.`} error={sync.error} retry={() => void sync.refetch()} />;
  const { conflicts, not_synced: left } = sync.data;
  return (
    <div className="flex flex-col gap-3">
      {conflicts.length > 0 && <Conflicts workspace={w} list={conflicts} />}
      {left.length > 0 && <Left list={left} />}
    </div>
  );
}

function Conflicts({ workspace: w, list }: { workspace: Workspace; list: Conflict[] }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const settle = useMutation({
    mutationFn: settleConflict,
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: remoteKeys.sync(w.id) });
      void client.invalidateQueries({ queryKey: keys.sandbox(w.id) });
    },
    onError: (error) => toastError(t`The conflict was not marked as resolved`, error),
  });
  const open = (file: string) =>
    void navigate({ search: (s) => ({ ...s, dialog: undefined, tab: "changes", session: undefined, file }) });
  return (
    <section aria-labelledby="sync-conflicts">
      <h3 id="sync-conflicts" className="font-medium">
        <Trans>Changed on both sides</Trans>
      </h3>
      <p className="text-meta text-fg3">
        <Trans>Both versions are saved. Copy over what you need, then mark the conflict as resolved.</Trans>
      </p>
      <ul className="mt-1 divide-y divide-hairline border-y border-hairline">
        {list.map((c) => (
          <li key={c.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5">
            <span className="min-w-0 flex-1 basis-60">
              <span className="block font-mono text-code break-all">{visible(c.path)}</span>
              <span className="block text-meta break-all text-fg3">
                <Trans>
                  the server's version is saved as <span className="font-mono text-code">{visible(c.kept_path)}</span>,
                  found {ago(c.found_at, now)}
                </Trans>
              </span>
            </span>
            <Button onClick={() => open(c.path)} aria-label={t`Open the sandbox's ${visible(c.path)}`}>
              <Trans>Sandbox's</Trans>
            </Button>
            <Button onClick={() => open(c.kept_path)} aria-label={t`Open the server's ${visible(c.kept_path)}`}>
              <Trans>Server's</Trans>
            </Button>
            {team.can("workspace.edit") && (
              <Button
                busy={settle.isPending && settle.variables === c.id && t`Saving`}
                aria-label={t`Mark as resolved: ${visible(c.path)}`}
                onClick={() => settle.mutate(c.id)}
              >
                <Trans>Mark as resolved</Trans>
              </Button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Left({ list }: { list: NotSynced[] }) {
  return (
    <section aria-labelledby="sync-left">
      <h3 id="sync-left" className="font-medium">
        <Trans>Not synced</Trans>
      </h3>
      <p className="text-meta text-fg3">
        <Trans>These files exist only in the sandbox and are lost when it ends.</Trans>
      </p>
      <ul className="mt-1 divide-y divide-hairline border-y border-hairline">
        {list.slice(0, MOST).map((f) => (
          <li key={f.path} className="flex flex-wrap items-baseline gap-x-3 py-1.5">
            <span className="min-w-0 flex-1 basis-60">
              <span className="block font-mono text-code break-all">{visible(f.path)}</span>
              <span className="block text-meta break-words text-needs">{sentence(f.reason || f.state)}</span>
            </span>
            {f.size > 0 && <span className="text-meta text-fg3 tabular-nums">{bytes(f.size)}</span>}
          </li>
        ))}
      </ul>
      {list.length > MOST && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>{plural(list.length - MOST, { one: "# more file", other: "# more files" })} of this kind.</Trans>
        </p>
      )}
    </section>
  );
}
