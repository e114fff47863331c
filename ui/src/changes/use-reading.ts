import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { toastError } from "@/state/toasts";
import { Reading } from "./diff/reading";
import { inTreeOrder } from "./diff/tree";
import type { Comparison } from "./diff/types";
import { sourceOf } from "./source";

export interface ReadingNow {
  reading: Reading;
  /** What is being read: the newest, or what it was when the reader began. */
  comparison: Comparison;
  ignoreSpace: boolean;
  /** Paths that changed since the reader began. */
  newer: ReadonlySet<string>;
  /** Takes the newest state in. */
  refresh: () => void;
  /** The reader has begun: lines stay where they are from now on. */
  hold: () => void;
  setViewed: (path: string, viewed: boolean) => void;
}

/**
 * Follows the newest state until the user starts reading. Then it freezes and only counts newer changes, so lines do not
 * move under the reader's eyes.
 */
export function useReading(workspaceId: string, newest: { comparison: Comparison; ignoreSpace: boolean }): ReadingNow {
  const [frozen, setFrozen] = useState<typeof newest>();
  const reading = useMemo(() => new Reading(), []);
  useEffect(() => reading.start(), [reading]);
  // Unfreeze when another comparison is chosen.
  const same =
    frozen &&
    frozen.ignoreSpace === newest.ignoreSpace &&
    frozen.comparison.from.rev === newest.comparison.from.rev &&
    frozen.comparison.to.rev === newest.comparison.to.rev;
  const now = same ? frozen : newest;
  const { ignoreSpace } = now;
  const comparison = useMemo(() => ({ ...now.comparison, files: inTreeOrder(now.comparison.files) }), [now]);
  useEffect(() => {
    reading.show(sourceOf(workspaceId, comparison, ignoreSpace));
  }, [reading, workspaceId, comparison, ignoreSpace]);
  const ahead = useMemo(() => newer(now.comparison, newest.comparison), [now, newest]);
  const client = useQueryClient();
  const note = useMutation({
    mutationFn: (body: { path: string; mark: string; viewed: boolean }) =>
      data(api.PUT("/workspaces/{id}/viewed", { params: { path: { id: workspaceId } }, body })),
    onSuccess: (_, { path, mark, viewed }) => {
      // Shown immediately when the page is opened again.
      client.setQueriesData<typeof newest>(
        { queryKey: keys.compared(workspaceId) },
        (old) => old && { ...old, comparison: withViewed(old.comparison, path, mark, viewed) },
      );
    },
    onError: (error, { path, viewed }) => {
      reading.setViewed(path, !viewed);
      toastError(t`Could not mark the file as viewed`, error);
    },
  });
  return {
    reading,
    comparison,
    ignoreSpace,
    newer: ahead,
    refresh: useCallback(() => setFrozen(undefined), []),
    hold: useCallback(() => setFrozen(now), [now]),
    setViewed: useCallback(
      (path, viewed) => {
        const mark = comparison.files.find((f) => f.path === path)?.mark;
        if (mark === undefined) return;
        reading.setViewed(path, viewed);
        note.mutate({ path, mark, viewed });
      },
      [reading, comparison, note.mutate],
    ),
  };
}

/** The files that are in another state in the newer comparison than in the one being read. */
export function newer(reading: Comparison, newest: Comparison): Set<string> {
  const out = new Set<string>();
  if (reading === newest) return out;
  const before = new Map(reading.files.map((f) => [f.path, f.mark]));
  for (const f of newest.files) {
    if (before.get(f.path) !== f.mark) out.add(f.path);
    before.delete(f.path);
  }
  for (const gone of before.keys()) out.add(gone);
  return out;
}

function withViewed(c: Comparison, path: string, mark: string, viewed: boolean): Comparison {
  return { ...c, files: c.files.map((f) => (f.path === path && f.mark === mark ? { ...f, viewed } : f)) };
}
