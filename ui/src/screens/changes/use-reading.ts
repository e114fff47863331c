import { useCallback, useEffect, useMemo, useState } from "react";
import { Reading, type Source } from "@/diff/reading";
import type { Comparison } from "@/diff/types";
import { recall, remember } from "@/state/remember";

const isMarks = (v: unknown): v is [string, string][] =>
  Array.isArray(v) && v.every((e) => Array.isArray(e) && e.length === 2);
const MOST_MARKS = 2000;

export interface ReadingNow {
  reading: Reading;
  /** What is being read: the newest, or what it was when the reader began. */
  comparison: Comparison;
  /** Paths that changed since the reader began. */
  newer: ReadonlySet<string>;
  /** Takes the newest state in. */
  refresh: () => void;
  /** The reader has begun: lines stay where they are from now on. */
  hold: () => void;
  setViewed: (path: string, viewed: boolean) => void;
}

/**
 * A reading that follows the newest state until somebody reads: then it holds still and only counts what is newer, so that lines do not
 * move under the reader's eyes.
 */
export function useReading(
  workspaceId: string,
  newest: Comparison,
  ignoreSpace: boolean,
  sourceOf: (workspaceId: string, c: Comparison, ignoreSpace: boolean) => Source,
): ReadingNow {
  const [frozen, setFrozen] = useState<Comparison>();
  const reading = useMemo(() => new Reading(), []);
  useEffect(() => reading.start(), [reading]);
  const comparison = frozen ?? newest;
  useEffect(() => {
    const known = new Map(recall(`viewed.${workspaceId}`, isMarks) ?? []);
    const files = comparison.files.map((f) => (known.get(f.path) === f.mark ? { ...f, viewed: true } : f));
    reading.show(sourceOf(workspaceId, { ...comparison, files }, ignoreSpace));
  }, [reading, workspaceId, comparison, ignoreSpace, sourceOf]);
  const ahead = useMemo(() => (frozen ? newer(frozen, newest) : new Set<string>()), [frozen, newest]);
  return {
    reading,
    comparison,
    newer: ahead,
    refresh: useCallback(() => setFrozen(undefined), []),
    hold: useCallback(() => setFrozen((f) => f ?? newest), [newest]),
    setViewed: useCallback(
      (path, viewed) => {
        reading.setViewed(path, viewed);
        const marks = new Map(recall(`viewed.${workspaceId}`, isMarks) ?? []);
        marks.delete(path);
        const mark = comparison.files.find((f) => f.path === path)?.mark;
        if (viewed && mark) marks.set(path, mark);
        remember(`viewed.${workspaceId}`, [...marks].slice(-MOST_MARKS));
      },
      [reading, workspaceId, comparison],
    ),
  };
}

/** The files that are in another state in the newer comparison than in the one being read. */
export function newer(reading: Comparison, newest: Comparison): Set<string> {
  const out = new Set<string>();
  const before = new Map(reading.files.map((f) => [f.path, f.mark]));
  for (const f of newest.files) {
    if (before.get(f.path) !== f.mark) out.add(f.path);
    before.delete(f.path);
  }
  for (const gone of before.keys()) out.add(gone);
  return out;
}
