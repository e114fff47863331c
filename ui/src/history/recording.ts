import type { Schemas } from "@/api/client";

export interface Size {
  offset: number;
  cols: number;
  rows: number;
}

/** When output arrived: at time `at[i]` there were `offset[i]` bytes. Both ascend. */
export interface Timeline {
  first: number;
  end: number;
  at: number[];
  offset: number[];
  exact: boolean;
  sizes: Size[];
}

/** Decodes a response, whose numbers are deltas. */
export function readTiming(t: Schemas["Timing"]): Timeline {
  const sum = (all: number[]) => {
    let n = 0;
    let before = Number.NEGATIVE_INFINITY;
    return all.map((d) => {
      n += d;
      before = Math.max(before, n); // a clock that went back shows as a pause
      return before;
    });
  };
  return { first: t.first, end: t.end, at: sum(t.at), offset: sum(t.offset), exact: t.exact, sizes: t.sizes };
}

/** The index of the first element above x. */
export function above(all: readonly number[], x: number): number {
  let lo = 0;
  let hi = all.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (all[mid]! > x) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

/** How far output had come at a time. */
export function offsetAt(t: Timeline, at: number): number {
  const i = above(t.at, at);
  return i === 0 ? t.first : t.offset[i - 1]!;
}

/** When the byte at an offset came. */
export function timeOf(t: Timeline, offset: number): number {
  const i = above(t.offset, offset);
  return t.at[Math.min(i, t.at.length - 1)] ?? 0;
}

/** When the next output after a time comes; undefined: none. */
export function nextAfter(t: Timeline, at: number): number | undefined {
  return t.at[above(t.at, at)];
}

/** Replaces coarse marks between two times with finer ones. */
export function refine(t: Timeline, fine: Timeline): Timeline {
  const from = fine.at[0];
  const to = fine.at.at(-1);
  if (from === undefined || to === undefined) return t;
  const i = above(t.at, from - 1);
  const j = above(t.at, to);
  return {
    ...t,
    at: [...t.at.slice(0, i), ...fine.at, ...t.at.slice(j)],
    offset: [...t.offset.slice(0, i), ...fine.offset, ...t.offset.slice(j)],
  };
}

/** The output in each of n equal intervals, from 0 to 1, on a compressed scale so that small amounts stay visible. */
export function activity(t: Timeline, from: number, to: number, n: number): number[] {
  const sums = new Array<number>(n).fill(0);
  let before = t.first;
  t.at.forEach((at, i) => {
    const k = Math.min(n - 1, Math.max(0, Math.floor(((at - from) / Math.max(1, to - from)) * n)));
    sums[k] = sums[k]! + Math.max(0, t.offset[i]! - before);
    before = t.offset[i]!;
  });
  const most = Math.log1p(Math.max(1, ...sums));
  return sums.map((s) => Math.log1p(s) / most);
}

/** The next size that differs after an offset. */
export function sizeAfter(t: Timeline, offset: number): Size | undefined {
  return t.sizes.find((s) => s.offset > offset);
}

/** A length of time as a player shows it: "0:07", "12:34", "1:02:03". */
export function stamp(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number) => String(n).padStart(2, "0");
  const h = Math.floor(s / 3600);
  const m = Math.floor((s % 3600) / 60);
  return h > 0 ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}
