import type { Row } from "./rows";
import type { Range } from "./words";

/** Where a text occurs in a line, without regard to case unless the wanted text has a capital. */
export function findIn(text: string, wanted: string): Range[] {
  if (wanted === "") return [];
  const exact = wanted !== wanted.toLowerCase();
  const hay = exact ? text : text.toLowerCase();
  const out: Range[] = [];
  for (let at = hay.indexOf(wanted); at >= 0; at = hay.indexOf(wanted, at + wanted.length)) {
    out.push([at, at + wanted.length]);
    if (out.length >= 200) break;
  }
  return out;
}

/** Indexes of the rows that contain the text. */
export function findRows(rows: readonly Row[], wanted: string, path: (file: number) => string): number[] {
  if (wanted === "") return [];
  const out: number[] = [];
  rows.forEach((row, i) => {
    const texts =
      row.kind === "line"
        ? [row.line.text]
        : row.kind === "pair"
          ? [row.left?.text ?? "", row.right?.text ?? ""]
          : row.kind === "file"
            ? [path(row.file)]
            : [];
    if (texts.some((t) => findIn(t, wanted).length > 0)) out.push(i);
  });
  return out;
}
