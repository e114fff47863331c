import { type ChangeObject, diffArrays } from "diff";
import type { Range } from "@/highlight/segments";
import { type FilePatch, KIND_DEL, lineText } from "./lines";

const NONE: readonly Range[] = [];
const MOST_EDITS = 200; // of words; a line that changed by more is new as a whole, and comparing it would take long

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
  const changes = diffArrays(tokens(a), tokens(b), { maxEditLength: MOST_EDITS });
  if (!changes) return [NONE, NONE];
  const left = ranges(changes.filter((c) => !c.added));
  const right = ranges(changes.filter((c) => !c.removed));
  // Marks help where most of a line stays; a line that is new as a whole needs none.
  if (share(left, a) > 0.75 && share(right, b) > 0.75) return [NONE, NONE];
  return [left, right];
}

function tokens(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

/** Ranges that changed. Blanks between two ranges are included, so marks are not fragmented. */
function ranges(parts: readonly ChangeObject<string[]>[]): Range[] {
  const out: [number, number][] = [];
  let at = 0;
  parts.forEach((part, i) => {
    const text = part.value.join("");
    const end = at + text.length;
    const unchanged = (p: ChangeObject<string[]> | undefined) => !p || !(p.added || p.removed);
    const blank = text.trim() === "" && !unchanged(parts[i - 1]) && !unchanged(parts[i + 1]);
    if (!unchanged(part) || blank) {
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
