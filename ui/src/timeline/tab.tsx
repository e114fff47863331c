import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type InfiniteData, useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useMemo, useRef, useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { day } from "@/format/time";
import { Button } from "@/kit/button";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { toast, toastError } from "@/state/toasts";
import { ActivityRow, SnapshotRow } from "./row";
import { joined, type Row } from "./rows";

const Checkpoints = lazy(() => import("./checkpoints"));
const Edits = lazy(() => import("./edits"));
const ToolCalls = lazy(() => import("@/tools/calls"));

const WITHOUT_POLLS = "turn,commit,kept,manual,activity";

/** Snapshots of the files and what happened in the workspace, newest first. */
export default function TimelineTab({ workspace: w, linked }: { workspace: Workspace; linked?: string }) {
  const [all, setAll] = useState(false);
  const [marked, setMarked] = useState(false);
  const [edited, setEdited] = useState(false);
  const [called, setCalled] = useState(false);
  const [picked, setPicked] = useState<{ id: string; label: string }>();
  const client = useQueryClient();
  const list = useInfiniteQuery({
    queryKey: [...keys.timeline(w.id), all],
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/timeline", {
          params: {
            path: { id: w.id },
            query: { limit: 50, ...(all ? {} : { kind: WITHOUT_POLLS }), ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const keep = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/snapshots", { params: { path: { id: w.id } }, body: {} })),
    onSuccess: () => {
      toast({ kind: "good", title: t`Snapshot saved` });
      void client.invalidateQueries({ queryKey: keys.timeline(w.id) });
    },
    onError: (error) => toastError(t`The snapshot was not saved`, error, () => keep.mutate()),
  });
  const now = useNow();
  const items = useMemo(() => joined(list.data?.pages.flatMap((p) => p.items) ?? []), [list.data]);
  const sought = useLinked(linked, items, list, all, () => setAll(true));
  if (list.isPending) return <Skeleton rows={6} label={t`Loading the timeline`} />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-4"
        what={t`The timeline could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  const first = list.data.pages[0];
  const held = first?.stored_bytes;
  const days = new Map<string, Row[]>();
  for (const m of items) {
    const d = day(m.at, now);
    days.set(d, [...(days.get(d) ?? []), m]);
  }
  return (
    <div className="h-full overflow-y-auto px-4 py-4 md:px-6">
      <div className="max-w-3xl">
        <div className="mb-3 flex flex-wrap items-center gap-x-4 gap-y-2">
          <Button busy={keep.isPending && t`Saving`} onClick={() => keep.mutate()}>
            <Trans>Save snapshot</Trans>
          </Button>
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={all} onChange={(e) => setAll(e.target.checked)} />
            <Trans>Every file change</Trans>
          </label>
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={marked} onChange={(e) => setMarked(e.target.checked)} />
            <Trans>Checkpoints</Trans>
          </label>
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={edited} onChange={(e) => setEdited(e.target.checked)} />
            <Trans>Edits</Trans>
          </label>
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={called} onChange={(e) => setCalled(e.target.checked)} />
            <Trans>Tool calls</Trans>
          </label>
          {typeof held === "number" && held > 0 && (
            <span className="text-meta text-fg3">
              <Trans>Snapshots use {bytes(held)}</Trans>
            </span>
          )}
          {first && <span className="text-meta text-fg3">{keptFor(first.poll_days, first.keep_days)}</span>}
        </div>
        {marked && (
          <Suspense fallback={<Skeleton rows={3} label={t`Loading the checkpoints`} />}>
            <Checkpoints workspace={w} />
          </Suspense>
        )}
        {edited && (
          <Suspense fallback={<Skeleton rows={3} label={t`Loading the edits`} />}>
            <Edits workspace={w.id} />
          </Suspense>
        )}
        {called && (
          <Suspense fallback={<Skeleton rows={3} label={t`Loading the tool calls`} />}>
            <ToolCalls workspace={w.id} />
          </Suspense>
        )}
        {picked && (
          <p role="status" className="mb-3 flex flex-wrap items-center gap-3 text-fg2">
            <Trans>Choose a second state to compare with “{picked.label}”.</Trans>
            <Button onClick={() => setPicked(undefined)}>
              <Trans>Cancel</Trans>
            </Button>
          </p>
        )}
        {items.length === 0 && (
          <Empty title={t`No activity yet`}>
            <Trans>Agent turns, commits, snapshots and actions of people appear here.</Trans>
          </Empty>
        )}
        {[...days].map(([d, rows]) => (
          <section key={d} aria-label={d} className="mb-4">
            <h2 className="mb-1 text-meta text-fg3">{d}</h2>
            <ol className="divide-y divide-hairline border-y border-hairline">
              {rows.map((m) =>
                m.snapshot ? (
                  <SnapshotRow
                    key={m.snapshot.id}
                    workspace={w}
                    snapshot={m.snapshot}
                    activity={m.activity}
                    mark={sought}
                    picked={picked}
                    onPick={setPicked}
                  />
                ) : (
                  m.activity && <ActivityRow key={m.activity.id} activity={m.activity} mark={sought} />
                ),
              )}
            </ol>
          </section>
        ))}
        {list.hasNextPage && (
          <Button busy={list.isFetchingNextPage && t`Loading`} onClick={() => void list.fetchNextPage()}>
            <Trans>Show older</Trans>
          </Button>
        )}
      </div>
    </div>
  );
}

/** At most so many pages are loaded for a link. */
const MOST_PAGES = 100;

/** The entry that a link leads to, once it is loaded: older pages are, and then every change of the files. */
function useLinked(
  id: string | undefined,
  rows: readonly Row[],
  list: {
    isFetching: boolean;
    hasNextPage: boolean;
    isError: boolean;
    fetchNextPage: () => void;
    data?: InfiniteData<unknown>;
  },
  all: boolean,
  showAll: () => void,
): string | undefined {
  const row = id === undefined ? undefined : rows.find((r) => r.snapshot?.id === id || r.activity?.id === id);
  const found = row?.snapshot?.id ?? row?.activity?.id;
  const more = list.hasNextPage && (list.data?.pages.length ?? 0) < MOST_PAGES;
  const ready = id !== undefined && !found && !list.isFetching && !list.isError && list.data !== undefined;
  // Once it is found or gone, what else the reader shows is no search for it.
  const done = useRef<string>(undefined);
  useEffect(() => {
    if (found) done.current = id;
    if (!ready || done.current === id) return;
    if (more) list.fetchNextPage();
    else if (!all) showAll();
    else {
      done.current = id;
      toast({
        title: t`The linked entry is not there any more`,
        text: t`It was deleted, or its retention has ended.`,
      });
    }
  });
  return found;
}

/** How long unpinned snapshots are retained. */
function keptFor(polls: number, others: number): string {
  const time = (days: number) =>
    days === 0 ? t`as long as the workspace` : days === 1 ? t`for 1 day` : t`for ${days} days`;
  return polls === others
    ? t`All are kept ${time(others)}`
    : t`Changed files are kept ${time(polls)}, the others ${time(others)}`;
}
