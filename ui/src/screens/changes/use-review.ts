import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import type { ChangeSet } from "@/api/client";
import { diffQuery, WHOLE_FILE } from "@/api/queries";
import { newer, Review } from "@/diff/review";
import { CONTEXT } from "@/diff/rows";
import { recall, remember } from "@/state/remember";

const isMarks = (v: unknown): v is [string, string][] =>
  Array.isArray(v) && v.every((e) => Array.isArray(e) && e.length === 2);
const MOST_MARKS = 2000;

interface Reading {
  review: Review;
  /** Paths that changed since the reader began. */
  newer: ReadonlySet<string>;
  /** Takes the newest state in. */
  refresh: () => void;
  /** The reader has begun: lines stay where they are from now on. */
  hold: () => void;
  mark: (marks: ReadonlyMap<string, string>) => void;
}

/**
 * A review that follows the live changes until somebody reads: then it holds still and only counts what is newer, so that lines
 * do not move under the reader's eyes.
 */
export function useReview(workspaceId: string, live: ChangeSet): Reading {
  const client = useQueryClient();
  const [frozen, setFrozen] = useState<ChangeSet | undefined>(undefined);
  const review = useMemo(
    () =>
      new Review(
        (path, stamp, whole) => client.fetchQuery(diffQuery(workspaceId, path, stamp, whole ? WHOLE_FILE : CONTEXT)),
        new Map(recall(`viewed.${workspaceId}`, isMarks) ?? []),
      ),
    [client, workspaceId],
  );
  useEffect(() => review.start(), [review]);

  const shown = frozen ?? live;
  useEffect(() => review.show(shown), [review, shown]);
  const ahead = useMemo(() => (frozen ? newer(frozen, live) : new Set<string>()), [frozen, live]);

  return {
    review,
    newer: ahead,
    refresh: useCallback(() => setFrozen(undefined), []),
    hold: useCallback(() => setFrozen((f) => f ?? live), [live]),
    mark: useCallback((marks) => remember(`viewed.${workspaceId}`, [...marks].slice(-MOST_MARKS)), [workspaceId]),
  };
}
