import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { stagedOf } from "./staged";

type Four = [number, number, number, number];
const hunk = ([old_start, old_lines, new_start, new_lines]: Four): Schemas["HunkLines"] => ({
  old_start,
  old_lines,
  new_start,
  new_lines,
  removed: [],
  added: [],
});
const shown = (f: Four) => ({ path: "a", ...hunk(f) });
const of = (at: Four, staged: Four[], rest: Four[]) => {
  const s = stagedOf(shown(at), staged.map(hunk), rest.map(hunk));
  return [s.how, s.hunks.map((h) => h.new_start)];
};

describe("what of a hunk is staged", () => {
  it("is nothing, all, or some of it", () => {
    // Lines 3, 20 and 37 of 40 were changed; 20 is staged.
    const rest: Four[] = [
      [3, 1, 3, 1],
      [37, 1, 37, 1],
    ];
    expect(of([1, 6, 1, 6], [[20, 1, 20, 1]], rest)).toEqual(["none", []]);
    expect(of([17, 7, 17, 7], [[20, 1, 20, 1]], rest)).toEqual(["all", [20]]);
    expect(of([17, 24, 17, 24], [[20, 1, 20, 1]], rest)).toEqual(["some", [20]]);
    expect(of([17, 7, 17, 7], [], [])).toEqual(["none", []]);
  });
  it("follows moved lines", () => {
    // Five lines were added at the top and are not staged: line 20 of the index is line 25 of the file.
    expect(of([17, 7, 22, 7], [[20, 1, 20, 1]], [[0, 0, 1, 5]])).toEqual(["all", [20]]);
    expect(of([1, 3, 1, 8], [[20, 1, 20, 1]], [[0, 0, 1, 5]])).toEqual(["none", []]);
  });
  it("knows lines that were taken away and added", () => {
    expect(of([8, 7, 8, 6], [[11, 1, 10, 0]], [])).toEqual(["all", [10]]);
    expect(of([8, 7, 8, 6], [], [[11, 1, 10, 0]])).toEqual(["none", []]);
    expect(of([0, 0, 1, 3], [[0, 0, 1, 3]], [])).toEqual(["all", [1]]); // a new file
    expect(of([1, 3, 0, 0], [[1, 3, 0, 0]], [])).toEqual(["all", [0]]); // a deleted one
    expect(of([0, 0, 1, 3], [[0, 0, 1, 1]], [[1, 0, 2, 2]])).toEqual(["some", [1]]);
  });
});
