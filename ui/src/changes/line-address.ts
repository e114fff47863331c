import type { LineRange } from "./diff/types";

/** Lines in an address: "12", "12-20", and "old12" for lines of the older side. */
export function lineText(r: LineRange): string {
  const lines = r.line === r.end_line ? `${r.line}` : `${r.line}-${r.end_line}`;
  return r.side === "old" ? `old${lines}` : `new${lines}`;
}

/** The lines an address names; undefined when it names none. */
export function linesOf(path: string, text: string | undefined): LineRange | undefined {
  const m = /^(old|new)?(\d{1,9})(?:-(\d{1,9}))?$/.exec(text ?? "");
  if (!m) return undefined;
  const line = Number(m[2]);
  const end = Math.max(line, Number(m[3] ?? line));
  return line > 0 ? { path, side: m[1] === "old" ? "old" : "new", line, end_line: end } : undefined;
}
