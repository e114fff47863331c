import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { bytes, plural, sentence, visible } from "@/format/text";
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
  if (sync.isPending) return <Skeleton rows={2} label="Loading the files" />;
  if (sync.isError && !sync.data)
    return <Failure what="The list could not be loaded." error={sync.error} retry={() => void sync.refetch()} />;
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
    onError: (error) => toastError("The conflict was not marked as resolved", error),
  });
  const open = (file: string) =>
    void navigate({ search: (s) => ({ ...s, dialog: undefined, tab: "changes", session: undefined, file }) });
  return (
    <section aria-labelledby="sync-conflicts">
      <h3 id="sync-conflicts" className="font-medium">
        Changed on both sides
      </h3>
      <p className="text-meta text-fg3">
        Both versions are saved. Copy over what you need, then mark the conflict as resolved.
      </p>
      <ul className="mt-1 divide-y divide-hairline border-y border-hairline">
        {list.map((c) => (
          <li key={c.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5">
            <span className="min-w-0 flex-1 basis-60">
              <span className="block font-mono text-code break-all">{visible(c.path)}</span>
              <span className="block text-meta break-all text-fg3">
                the server's version is saved as <span className="font-mono text-code">{visible(c.kept_path)}</span>,
                found {ago(c.found_at, now)}
              </span>
            </span>
            <Button onClick={() => open(c.path)} aria-label={`Open the sandbox's ${visible(c.path)}`}>
              Sandbox's
            </Button>
            <Button onClick={() => open(c.kept_path)} aria-label={`Open the server's ${visible(c.kept_path)}`}>
              Server's
            </Button>
            {team.can("workspace.edit") && (
              <Button
                busy={settle.isPending && settle.variables === c.id && "Saving"}
                aria-label={`Mark as resolved: ${visible(c.path)}`}
                onClick={() => settle.mutate(c.id)}
              >
                Mark as resolved
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
        Not synced
      </h3>
      <p className="text-meta text-fg3">These files exist only in the sandbox and are lost when it ends.</p>
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
        <p className="mt-1 text-meta text-fg3">{plural(list.length - MOST, "more file")} of this kind.</p>
      )}
    </section>
  );
}
