import type { Range } from "@/highlight/segments";
import { type FilePatch, KIND_DEL, lineText } from "./lines";

const NONE: readonly Range[] = [];
const CELLS = 60_000; // of the comparison table; beyond it only the ends are compared

/** The words of a changed line that differ from its counterpart; none where nearly everything differs. */
export function changedWords(p: FilePatch, i: number): readonly Range[] {
  const other = p.pair[i]!;
  if (other < 0) return NONE;
  const del = (p.kind[i]! & 3) === KIND_DEL;
  const [before, after] = del ? [i, other] : [other, i];
  const [dels, adds] = wordDiff(lineText(p, before), lineText(p, after));
  return del ? dels : adds;
}

/** Compares two lines by words: what was removed of the first and added in the second. */
export function wordDiff(a: string, b: string): [readonly Range[], readonly Range[]] {
  if (a === b || a.length > 4000 || b.length > 4000) return [NONE, NONE];
  const x = tokens(a);
  const y = tokens(b);
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const midX = x.slice(head, x.length - tail);
  const midY = y.slice(head, y.length - tail);
  const { keepX, keepY } = common(midX, midY);
  const start = x.slice(0, head).join("").length;
  const left = ranges(midX, keepX, start);
  const right = ranges(midY, keepY, start);
  // Marks help where most of a line stays; a line that is new as a whole needs none.
  if (share(left, a) > 0.75 && share(right, b) > 0.75) return [NONE, NONE];
  return [left, right];
}

function tokens(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

function common(x: string[], y: string[]): { keepX: boolean[]; keepY: boolean[] } {
  const keepX = new Array<boolean>(x.length).fill(false);
  const keepY = new Array<boolean>(y.length).fill(false);
  if (x.length * y.length === 0 || x.length * y.length > CELLS) return { keepX, keepY };
  const w = y.length + 1;
  const best = new Uint16Array((x.length + 1) * w);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      best[i * w + j] =
        x[i] === y[j] ? best[(i + 1) * w + j + 1]! + 1 : Math.max(best[(i + 1) * w + j]!, best[i * w + j + 1]!);
    }
  }
  for (let i = 0, j = 0; i < x.length && j < y.length; ) {
    if (x[i] === y[j]) {
      keepX[i++] = true;
      keepY[j++] = true;
    } else if (best[(i + 1) * w + j]! >= best[i * w + j + 1]!) i++;
    else j++;
  }
  return { keepX, keepY };
}

/** The ranges not kept; blanks between two of them are taken along, so that marks do not flicker. */
function ranges(parts: string[], keep: boolean[], start: number): Range[] {
  const out: [number, number][] = [];
  let at = start;
  parts.forEach((part, i) => {
    const end = at + part.length;
    const blank = keep[i] && part.trim() === "" && i > 0 && !keep[i - 1] && i + 1 < parts.length && !keep[i + 1];
    if (!keep[i] || blank) {
      const last = out.at(-1);
      if (last && last[1] === at) last[1] = end;
      else out.push([at, end]);
    }
    at = end;
  });
  return out;
}

function share(list: readonly Range[], text: string): number {
  if (text.trim() === "") return 1;
  let marked = 0;
  for (const [from, to] of list) marked += text.slice(from, to).replace(/\s/g, "").length;
  return marked / Math.max(1, text.replace(/\s/g, "").length);
}
