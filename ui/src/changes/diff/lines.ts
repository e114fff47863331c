/** Kinds of a line, in the two lowest bits of FilePatch.kind. */
export const KIND_CONTEXT = 0;
export const KIND_ADD = 1;
export const KIND_DEL = 2;
/** Beside them: the file ends here without a line break. */
export const NO_NEWLINE = 4;

/** Lines longer than this are cut. */
export const CUT = 2000;

export interface HunkHead {
  /** Index of its first line, and how many it has. */
  first: number;
  count: number;
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  /** What git names as the surrounding function. */
  section: string;
}

/** The diff of one file. Lines are indexes into tables; their text is decoded from the bytes when shown. */
export interface FilePatch {
  /** In wire form; of a deleted file the one it had. */
  path: string;
  /** Shared by all files of one response. */
  bytes: Uint8Array;
  start: Uint32Array;
  end: Uint32Array;
  kind: Uint8Array;
  /** 1-based; 0 on the side where a line is not. */
  old: Uint32Array;
  new: Uint32Array;
  /** How wide a line is, as far as it is shown. */
  columns: Uint16Array;
  /** The line this one replaces or is replaced by; -1 = none. */
  pair: Int32Array;
  hunks: HunkHead[];
  binary: boolean;
  oldMode: string;
  newMode: string;
  /** It is not UTF-8: it is shown as Latin-1. */
  latin: boolean;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const latin1 = new TextDecoder("windows-1252");

export function lineText(p: FilePatch, i: number): string {
  return (p.latin ? latin1 : utf8).decode(p.bytes.subarray(p.start[i]!, p.end[i]!));
}

/** The line of a side; -1 when it is not among those that were loaded. Lines of a side come in order. */
export function findLine(p: FilePatch, side: "old" | "new", line: number): number {
  const numbers = side === "old" ? p.old : p.new;
  for (let i = 0; i < numbers.length; i++) if (numbers[i] === line) return i;
  return -1;
}
