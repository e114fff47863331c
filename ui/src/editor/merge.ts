import { diffArrays } from "diff";

/** A block of differing lines: [a0, a1) of one text corresponds to [b0, b1) of the other. */
type Block = readonly [a0: number, a1: number, b0: number, b1: number];

const MOST_EDITS = 2000;

/** Where two texts differ, line by line. Texts that differ by very much are one difference. */
export function diffLines(a: readonly string[], b: readonly string[]): Block[] {
  const changes = diffArrays([...a], [...b], { maxEditLength: MOST_EDITS });
  if (!changes) return [[0, a.length, 0, b.length]];
  const out: Block[] = [];
  let i = 0;
  let j = 0;
  let open = false; // whether the last block ends here
  for (const c of changes) {
    const [di, dj] = [c.added ? 0 : c.count, c.removed ? 0 : c.count];
    if (c.added || c.removed) {
      const [a0, , b0] = open ? out.pop()! : [i, i, j, j];
      out.push([a0, i + di, b0, j + dj]);
    }
    open = c.added || c.removed;
    i += di;
    j += dj;
  }
  return out;
}

/** Lines both agree on, or two versions of the same place. */
export type Chunk = { lines: string[] } | { mine: string[]; theirs: string[] };

export const isConflict = (c: Chunk): c is { mine: string[]; theirs: string[] } => "mine" in c;

/** Merges two changed versions of a text. Changes to the same or adjacent lines are conflicts for the user. */
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
    let [dl, dr] = [0, 0]; // the number of differences of each in this block
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
