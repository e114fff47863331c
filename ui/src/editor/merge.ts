/** A stretch of lines that differs: [a0, a1) of one text stand where [b0, b1) of the other do. */
type Block = readonly [a0: number, a1: number, b0: number, b1: number];

const MOST_EDITS = 2000;

/** Where two texts differ, line by line, by the greedy algorithm of Myers. Texts that differ by very much are one difference. */
export function diffLines(a: readonly string[], b: readonly string[]): Block[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const n = a.length - head - tail;
  const m = b.length - head - tail;
  if (n === 0 && m === 0) return [];
  const whole: Block[] = [[head, head + n, head, head + m]];
  if (n === 0 || m === 0) return whole;
  const most = Math.min(n + m, MOST_EDITS);
  const reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    trace.push(reach.slice(most + 1 - d, most + 2 + d));
    for (let k = -d; k <= d; k += 2) {
      const at = most + 1 + k;
      let i = k === -d || (k !== d && reach[at - 1]! < reach[at + 1]!) ? reach[at + 1]! : reach[at - 1]! + 1;
      while (i < n && i - k < m && a[head + i] === b[head + i - k]) i++;
      reach[at] = i;
      if (i >= n && i - k >= m) return blocksOf(walkBack(trace, d, n, m), n, m, head);
    }
  }
  return whole;
}

function walkBack(trace: readonly Int32Array[], from: number, n: number, m: number): [number, number][] {
  const same: [number, number][] = [];
  let i = n;
  let j = m;
  for (let d = from; d > 0; d--) {
    const was = (k: number) => trace[d]![k + d]!;
    const k = i - j;
    const down = k === -d || (k !== d && was(k - 1) < was(k + 1));
    const pi = was(down ? k + 1 : k - 1);
    const pj = pi - (down ? k + 1 : k - 1);
    const [si, sj] = down ? [pi, pj + 1] : [pi + 1, pj];
    while (i > si && j > sj) same.push([--i, --j]);
    i = pi;
    j = pj;
  }
  while (i > 0 && j > 0) same.push([--i, --j]);
  return same.reverse();
}

function blocksOf(same: readonly [number, number][], n: number, m: number, head: number): Block[] {
  const out: Block[] = [];
  let i = 0;
  let j = 0;
  for (const [x, y] of [...same, [n, m] as const]) {
    if (x > i || y > j) out.push([head + i, head + x, head + j, head + y]);
    i = x + 1;
    j = y + 1;
  }
  return out;
}

/** Lines both agree on, or two versions of the same place. */
export type Chunk = { lines: string[] } | { mine: string[]; theirs: string[] };

export const isConflict = (c: Chunk): c is { mine: string[]; theirs: string[] } => "mine" in c;

/** Puts two changed versions of a text together. What both changed in the same or in touching lines is for a person to choose. */
export function merge3(base: string, mine: string, theirs: string): Chunk[] {
  const [o, a, b] = [base.split("\n"), mine.split("\n"), theirs.split("\n")];
  const left = diffLines(o, a);
  const right = diffLines(o, b);
  const out: Chunk[] = [];
  const add = (lines: string[]) => {
    if (lines.length === 0) return;
    const last = out.at(-1);
    if (last && !isConflict(last)) last.lines.push(...lines);
    else out.push({ lines: [...lines] });
  };
  let at = 0; // in base
  let la = 0; // what lies before `at` in mine is this much longer
  let lb = 0;
  let l = 0;
  let r = 0;
  while (l < left.length || r < right.length) {
    const start = Math.min(left[l]?.[0] ?? Infinity, right[r]?.[0] ?? Infinity);
    add(o.slice(at, start));
    let end = start;
    let [dl, dr] = [0, 0]; // how many differences of each lie in this stretch
    const [l0, r0] = [l, r];
    for (let grew = true; grew; ) {
      grew = false;
      const x = left[l];
      if (x && x[0] <= end) {
        end = Math.max(end, x[1]);
        l++;
        dl++;
        grew = true;
      }
      const y = right[r];
      if (y && y[0] <= end) {
        end = Math.max(end, y[1]);
        r++;
        dr++;
        grew = true;
      }
    }
    const grownL = left.slice(l0, l).reduce((n, x) => n + (x[3] - x[2]) - (x[1] - x[0]), 0);
    const grownR = right.slice(r0, r).reduce((n, x) => n + (x[3] - x[2]) - (x[1] - x[0]), 0);
    const mineLines = a.slice(start + la, end + la + grownL);
    const theirLines = b.slice(start + lb, end + lb + grownR);
    if (dl === 0) add(theirLines);
    else if (dr === 0 || mineLines.join("\n") === theirLines.join("\n")) add(mineLines);
    else out.push({ mine: mineLines, theirs: theirLines });
    la += grownL;
    lb += grownR;
    at = end;
  }
  add(o.slice(at));
  return out;
}

export type Pick = "mine" | "theirs" | "both";

/** The text of chunks once each conflict is decided. */
export function mergedText(chunks: readonly Chunk[], picks: readonly Pick[]): string {
  let n = 0;
  return chunks
    .flatMap((c) => {
      if (!isConflict(c)) return c.lines;
      const pick = picks[n++] ?? "both";
      return pick === "mine" ? c.mine : pick === "theirs" ? c.theirs : [...c.mine, ...c.theirs];
    })
    .join("\n");
}
