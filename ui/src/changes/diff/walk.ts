import { type FilePatch, KIND_ADD, KIND_DEL, lineText } from "./lines";
import type { ReadingView } from "./reading";
import { FIRST_SPECIAL, isChangeStart, NONE, rowOfLine, SINGLE, specialAt } from "./rows";
import type { LineRange, SideName } from "./types";

/** A row of the page. */
export interface Place {
  file: number;
  row: number;
}

/** The files that are shown: all, or the one of a phone. */
export interface FileRange {
  from: number;
  to: number;
}

export const patchOf = (v: ReadingView, file: number): FilePatch | undefined => {
  const loaded = v.files[file]?.loaded;
  return loaded?.state === "ready" ? loaded.patch : undefined;
};

/** The next row that passes a test, in a direction. */
export function walk(
  v: ReadingView,
  within: FileRange,
  from: Place,
  by: 1 | -1,
  test: (p: Place) => boolean,
): Place | undefined {
  let { file, row } = from;
  for (;;) {
    row += by;
    const layout = v.layouts[file];
    if (!layout) return undefined;
    if (row < 0 || row >= layout.rows.n) {
      file += by;
      if (file < within.from || file >= within.to) return undefined;
      row = by > 0 ? -1 : v.layouts[file]!.rows.n;
      continue;
    }
    if (test({ file, row })) return { file, row };
  }
}

export const isHead = (_: ReadingView, p: Place): boolean => p.row === 0;

export const isLine = (v: ReadingView, p: Place): boolean => v.layouts[p.file]!.rows.a[p.row]! > FIRST_SPECIAL;

/** Whether a block of changed lines starts here. A file whose lines are not shown counts as one stop. */
export function isStop(v: ReadingView, p: Place): boolean {
  const { rows } = v.layouts[p.file]!;
  const patch = patchOf(v, p.file);
  if (isChangeStart(rows, patch, p.row)) return true;
  const s = specialAt(rows, p.row);
  return s?.kind === "picture" || (s?.kind === "note" && (s.note === "loading" || s.note === "error"));
}

export const topOf = (v: ReadingView, p: Place): number => v.tops[p.file]! + (v.layouts[p.file]?.tops[p.row] ?? 0);

export const heightOf = (v: ReadingView, p: Place): number => {
  const tops = v.layouts[p.file]?.tops;
  return tops ? (tops[p.row + 1] ?? 0) - (tops[p.row] ?? 0) : 0;
};

/** The line of a row on a side, else on the other one; its index, and which side that is. */
export function lineAt(v: ReadingView, p: Place, wish: SideName): { index: number; side: SideName } | undefined {
  const rows = v.layouts[p.file]?.rows;
  const patch = patchOf(v, p.file);
  if (!rows || !patch || rows.a[p.row]! <= FIRST_SPECIAL) return undefined;
  const a = rows.a[p.row]!;
  const b = rows.b[p.row]!;
  if (b === SINGLE) {
    const kind = patch.kind[a]! & 3;
    return { index: a, side: kind === KIND_DEL ? "old" : kind === KIND_ADD ? "new" : wish };
  }
  if (wish === "old") return a !== NONE ? { index: a, side: "old" } : { index: b, side: "new" };
  return b !== NONE ? { index: b, side: "new" } : { index: a, side: "old" };
}

/** The line of a row as others name it. */
export function rangeAt(v: ReadingView, p: Place, wish: SideName): LineRange | undefined {
  const at = lineAt(v, p, wish);
  const patch = patchOf(v, p.file);
  const f = v.files[p.file];
  if (!at || !patch || !f) return undefined;
  const line = at.side === "old" ? patch.old[at.index]! : patch.new[at.index]!;
  return { path: f.file.path, side: at.side, line, end_line: line };
}

/** Where a line is shown; undefined when it is not loaded or folded away. */
export function placeOf(v: ReadingView, file: number, side: SideName, line: number): Place | undefined {
  const patch = patchOf(v, file);
  const rows = v.layouts[file]?.rows;
  if (!patch || !rows) return undefined;
  const numbers = side === "old" ? patch.old : patch.new;
  const index = numbers.indexOf(line);
  if (index < 0) return undefined;
  const row = rowOfLine(rows, index);
  return row < 0 ? undefined : { file, row };
}

/** The text of a range, as far as it is loaded. */
export function textOf(v: ReadingView, range: LineRange): string[] {
  const file = v.files.findIndex((f) => f.file.path === range.path);
  const patch = patchOf(v, file);
  if (!patch) return [];
  const numbers = range.side === "old" ? patch.old : patch.new;
  const out: string[] = [];
  for (let i = 0; i < numbers.length; i++) {
    const n = numbers[i]!;
    if (n >= range.line && n <= range.end_line && n > 0) out.push(lineText(patch, i));
  }
  return out;
}
