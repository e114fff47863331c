import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { api, type ChangeSet, data, type Workspace } from "@/api/client";
import { changesQuery, keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Busy, Empty, Failure, Output, Skeleton } from "@/kit/states";
import { toastError } from "@/state/toasts";
import { comparisonOf } from "./live";
import { Reader } from "./reader";

const SyncNotes = lazy(() => import("../place/sync-notes"));

/** What differs from the base: the files, their lines, and the commit. */
export default function ChangesTab({ workspace: w }: { workspace: Workspace }) {
  const changes = useQuery(changesQuery(w.id));
  if (changes.isPending) return <Skeleton rows={6} label="Loading the changes" />;
  if (changes.isError && !changes.data)
    return (
      <Failure
        className="m-4"
        what="The changes could not be loaded."
        error={changes.error}
        retry={() => void changes.refetch()}
      />
    );
  return <Changes workspace={w} live={changes.data} />;
}

function Changes({ workspace: w, live }: { workspace: Workspace; live: ChangeSet }) {
  const newest = useMemo(() => comparisonOf(live), [live]);
  const sync = useSync(w.id);
  const problem = (
    <>
      {live.error && <SyncProblem set={live} onLook={() => sync.mutate()} busy={sync.isPending} />}
      <Suspense>
        <SyncNotes workspace={w} />
      </Suspense>
    </>
  );
  if (newest.files.length === 0)
    return (
      <div className="flex h-full flex-col">
        {problem}
        {!live.synced_at && !live.error ? (
          <div className="p-4">
            <Busy>Looking for changes…</Busy>
          </div>
        ) : (
          <Empty
            title="No changes yet"
            action={
              <Button busy={sync.isPending && "Looking"} onClick={() => sync.mutate()}>
                Look now
              </Button>
            }
          >
            The branch is the same as <span className="font-mono text-[12px]">{w.base}</span>. Files appear here as the
            agent writes them.
          </Empty>
        )}
      </div>
    );
  return <Reader workspace={w} live={live} newest={newest} problem={problem} />;
}

/** Looks for changes now, without waiting for the next look of its own. */
function useSync(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/sync", { params: { path: { id } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.changes(id) }),
    onError: (error) => toastError("Could not look for changes", error),
  });
}

function SyncProblem({ set, onLook, busy }: { set: ChangeSet; onLook: () => void; busy: boolean }) {
  const now = useNow();
  return (
    <div role="alert" className="flex flex-wrap items-start gap-x-3 gap-y-1 border-b border-hairline bg-bg2 px-4 py-2">
      <div className="min-w-0 flex-1">
        <p>
          <span aria-hidden className="text-needs">
            ◆{" "}
          </span>
          The last look for changes failed{set.synced_at ? `. What is shown is from ${ago(set.synced_at, now)}` : ""}.
        </p>
        <Output text={set.error} className="max-h-24" />
      </div>
      <Button busy={busy && "Looking"} onClick={onLook}>
        Look again
      </Button>
    </div>
  );
}
