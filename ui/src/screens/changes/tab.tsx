import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import { api, type ChangeSet, data, type Workspace } from "@/api/client";
import { changesQuery, keys } from "@/api/queries";
import { useTeam } from "@/app/team";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Busy, Empty, Failure, Output, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { useStore } from "@/state/store";
import { toastError } from "@/state/toasts";
import { CommitBox } from "./commit-box";
import { DiffView, type DiffViewHandle } from "./diff-view";
import { FileList } from "./file-list";
import { Toolbar } from "./toolbar";
import { useReview } from "./use-review";

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
  const team = useTeam();
  const wide = useMedia("(min-width: 768px)");
  const { file } = useSearch({ from: "/$team/w/$key" });
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const reading = useReview(w.id, live);
  const view = useStore(reading.review.view);
  const diff = useRef<DiffViewHandle>(null);
  const [unchecked, setUnchecked] = useState<ReadonlySet<string>>(new Set());
  const [current, setCurrent] = useState(0);
  const sync = useSync(w.id);

  const problem = (
    <>
      {live.error && <SyncProblem set={live} onLook={() => sync.mutate()} busy={sync.isPending} />}
      <Suspense>
        <SyncNotes workspace={w} />
      </Suspense>
    </>
  );
  if (live.items.length === 0 && view.files.length === 0)
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

  const list = (
    <div className="flex h-full min-h-0 flex-col">
      <FileList
        files={live.items}
        base={live}
        newer={reading.newer}
        viewed={view}
        current={wide ? view.files[current]?.change.path : undefined}
        unchecked={team.can("workspace.edit") ? unchecked : undefined}
        onCheck={(paths, on) =>
          setUnchecked((old) => {
            const next = new Set(old);
            for (const p of paths) on ? next.delete(p) : next.add(p);
            return next;
          })
        }
        onOpen={(path) => {
          if (wide) diff.current?.showFile(path);
          void navigate({ search: (s) => ({ ...s, file: path }), replace: wide });
        }}
      />
      {team.can("workspace.edit") && <CommitBox workspace={w} live={live} unchecked={unchecked} />}
    </div>
  );

  if (!wide && !file)
    return (
      <div className="flex h-full min-h-0 flex-col">
        {problem}
        <div className="min-h-0 flex-1">{list}</div>
      </div>
    );

  return (
    <div className="flex h-full min-h-0 flex-col">
      {problem}
      <div className="flex min-h-0 flex-1">
        {wide && <div className="w-72 shrink-0 border-r border-hairline xl:w-80">{list}</div>}
        <div className="flex min-w-0 flex-1 flex-col">
          <Toolbar
            reading={reading}
            live={live}
            view={view}
            diff={diff}
            back={
              wide ? undefined : (
                <Button
                  look="quiet"
                  className="-ml-2"
                  onClick={() => void navigate({ search: (s) => ({ ...s, file: undefined }) })}
                >
                  <Icon name="arrowLeft" size={14} />
                  Files
                </Button>
              )
            }
            narrow={!wide}
          />
          <DiffView
            ref={diff}
            reading={reading}
            view={view}
            start={file}
            only={wide ? undefined : file}
            onFile={setCurrent}
          />
        </div>
      </div>
    </div>
  );
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
