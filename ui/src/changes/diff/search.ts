import { findIn } from "./find";
import { type FilePatch, lineText } from "./lines";
import type { ReadingView } from "./reading";
import type { LineRange } from "./types";

/** Hits beyond this many are not counted. */
export const MOST_HITS = 1000;

/** Whether all lines are loaded, so the server is not needed. */
export const allLoaded = (v: ReadingView): boolean =>
  v.files.every((f) => f.file.binary || (f.loaded.state === "ready" && !f.loaded.patch.binary));

/** Where a text occurs in the lines that are loaded, in the order of the page. */
export function localHits(v: ReadingView, wanted: string): LineRange[] {
  const out: LineRange[] = [];
  const small = wanted.toLowerCase();
  if (small === "") return out;
  for (const f of v.files) {
    if (f.loaded.state !== "ready") continue;
    const p = f.loaded.patch;
    if (!mayHold(p, small)) continue;
    for (let i = 0; i < p.kind.length; i++) {
      if (findIn(lineText(p, i), wanted).length === 0) continue;
      const side = p.new[i]! > 0 ? "new" : "old";
      const line = side === "new" ? p.new[i]! : p.old[i]!;
      out.push({ path: f.file.path, side, line, end_line: line });
      if (out.length >= MOST_HITS) return out;
    }
  }
  return out;
}

const decoder = new TextDecoder();

/** Checks the whole text of a file first, because most files have no match. */
function mayHold(p: FilePatch, small: string): boolean {
  const n = p.kind.length;
  if (n === 0) return false;
  return (
    p.latin ||
    decoder
      .decode(p.bytes.subarray(p.start[0]!, p.end[n - 1]!))
      .toLowerCase()
      .includes(small)
  );
}
