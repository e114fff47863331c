import { CUT, type Row } from "./rows";

/** Sizes in px of the classes in styles/diff.css. */
export const LINE = 20;
export const GUTTER = 52; // one column of numbers
export const MARK = 20; // the + or - beside the text
const CHAR = 7.2; // 12 px JetBrains Mono

const HEIGHTS: Record<string, number> = { file: 38, note: 44, fold: 28, end: 16 };

/** The height a row will have: exact for plain text, near enough elsewhere (the row is measured once it is on screen). */
export function rowHeight(row: Row, width: number, split: boolean): number {
  if (row.kind === "line") return LINE * wrapped(row.line.text, width - 2 * GUTTER - MARK - 12);
  if (row.kind === "pair") {
    const half = width / 2 - GUTTER - MARK - 12;
    return LINE * Math.max(wrapped(row.left?.text ?? "", half), wrapped(row.right?.text ?? "", half));
  }
  return HEIGHTS[row.kind] ?? (split ? LINE : LINE);
}

function wrapped(text: string, width: number): number {
  const columns = Math.max(10, Math.floor(width / CHAR));
  if (text.length <= columns && !text.includes("\t")) return 1;
  let n = Math.min(text.length, CUT);
  for (let i = text.indexOf("\t"); i >= 0 && i < CUT; i = text.indexOf("\t", i + 1)) n += 3;
  return Math.max(1, Math.ceil(n / columns));
}
