import type { Range } from "@/highlight/segments";

/** Where a text occurs in a line; ignores case, like the server. */
export function findIn(text: string, wanted: string): Range[] {
  if (wanted === "") return [];
  const hay = text.toLowerCase();
  const small = wanted.toLowerCase();
  // Letters whose small form is longer would shift the places: they are then not marked, only found.
  if (hay.length !== text.length) return hay.includes(small) ? [[0, 0]] : [];
  const out: Range[] = [];
  for (let at = hay.indexOf(small); at >= 0; at = hay.indexOf(small, at + small.length)) {
    out.push([at, at + small.length]);
    if (out.length >= 200) break;
  }
  return out;
}
