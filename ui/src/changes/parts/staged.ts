import type { Schemas } from "@/api/client";
import type { HunkPlace } from "@/changes/diff/types";

type Hunk = Schemas["HunkLines"];

/** How much of a hunk is staged, and the parts of the index that are of it. */
export interface StagedOf {
  how: "none" | "some" | "all";
  hunks: Hunk[];
}

/** The first and last line of a range. For an empty range, the start is the line before it. */
const span = (start: number, lines: number): [number, number] =>
  lines === 0 ? [start, start] : [start - 1, start - 1 + lines];

const meet = ([a, b]: [number, number], [c, d]: [number, number]) =>
  a === b || c === d ? c <= b && a <= d : c < b && a < d;

/**
 * Finds what of a shown hunk is staged: `staged` is the diff from branch to index, `rest` from index to the shown files.
 */
export function stagedOf(hunk: HunkPlace, staged: readonly Hunk[], rest: readonly Hunk[]): StagedOf {
  const shown = span(hunk.new_start, hunk.new_lines);
  const left = rest.some((r) => meet(span(r.new_start, r.new_lines), shown));
  /** Where a place in the index is in the shown file. */
  const at = (place: number) => {
    let by = 0;
    for (const r of rest) {
      const [from, to] = span(r.old_start, r.old_lines);
      if (to <= place && (from !== to || from < place)) by += r.new_lines - r.old_lines;
    }
    return place + by;
  };
  const hunks = staged.filter((s) => {
    const [from, to] = span(s.new_start, s.new_lines);
    return meet([at(from), at(to)], shown);
  });
  return { how: hunks.length === 0 ? "none" : left ? "some" : "all", hunks };
}
