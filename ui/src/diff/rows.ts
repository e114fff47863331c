import type { Change } from "@/api/client";
import { type DiffLine, type FileDiff, withoutWhitespace } from "./parse";

/** Lines kept around a change when the rest is folded. */
export const CONTEXT = 3;
/** A file with more changed lines than this is folded until it is asked for. */
export const FOLD_LINES = 800;
/** Lines longer than this are cut. */
export const CUT = 2000;
/** How many lines one press unfolds. */
export const STEP = 20;

/** What is known of one file's diff. */
export type Loaded =
  | { state: "none" }
  | { state: "loading" }
  | { state: "error"; error: unknown }
  | { state: "ready"; diff: FileDiff; whole: boolean };

/** Folds a person opened: by the old line number the fold began at, how many lines are shown from its top and bottom. */
export type Opened = ReadonlyMap<number, { top: number; bottom: number }>;

export type Row =
  | { kind: "file"; file: number; key: string }
  | { kind: "note"; file: number; key: string; note: Note }
  | {
      kind: "fold";
      file: number;
      key: string;
      at: number;
      count: number;
      section: string;
      edge: "top" | "middle" | "bottom";
    }
  | { kind: "line"; file: number; key: string; line: DiffLine; change: number }
  | { kind: "pair"; file: number; key: string; left?: DiffLine; right?: DiffLine; change: number }
  | { kind: "end"; file: number; key: string };

export type Note = "loading" | "error" | "binary" | "large" | "deleted" | "noisy" | "mode" | "empty" | "same" | "latin";

export interface FileView {
  change: Change;
  loaded: Loaded;
  /** A person's wish; undefined follows the rule. */
  folded: boolean | undefined;
  opened: Opened;
  viewed: boolean;
}

/** Files nobody reads line by line. */
const NOISY =
  /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|Cargo\.lock|poetry\.lock|uv\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock)$|\.(min\.(js|css)|map|snap|lock)$|\.(pb|gen)\.go$/;

/** Why a file starts folded, or undefined when it does not. */
export function foldReason(c: Change): "binary" | "large" | "deleted" | "noisy" | undefined {
  if (c.binary) return "binary";
  if (c.status === "deleted") return "deleted";
  if (c.additions + c.deletions > FOLD_LINES) return "large";
  if (NOISY.test(c.path)) return "noisy";
  return undefined;
}

export function isFolded(f: FileView): boolean {
  return f.folded ?? (f.viewed || foldReason(f.change) !== undefined);
}

export interface RowOptions {
  split: boolean;
  whitespace: boolean; // true: changes of white space are shown
}

/** All rows of one file, its head first. Keys stay the same while the file's lines do. */
export function fileRows(f: FileView, file: number, options: RowOptions): Row[] {
  const id = f.change.path;
  const rows: Row[] = [{ kind: "file", file, key: id }];
  const note = (n: Note) => rows.push({ kind: "note", file, key: `${id}\n${n}`, note: n });
  if (isFolded(f)) {
    const why = foldReason(f.change);
    if (why && f.folded === undefined) note(why);
    return rows;
  }
  if (f.change.binary) note("binary");
  else if (f.loaded.state === "none" || f.loaded.state === "loading") note("loading");
  else if (f.loaded.state === "error") note("error");
  else bodyRows(f, file, f.loaded.diff, f.loaded.whole, options, rows);
  rows.push({ kind: "end", file, key: `${id}\nend` });
  return rows;
}

function bodyRows(f: FileView, file: number, diff: FileDiff, whole: boolean, options: RowOptions, rows: Row[]): void {
  const id = f.change.path;
  const note = (n: Note) => rows.push({ kind: "note", file, key: `${id}\n${n}`, note: n });
  if (diff.binary) {
    note("binary");
    return;
  }
  if (diff.encoding === "latin-1") note("latin");
  if (diff.hunks.length === 0) {
    note(
      diff.oldMode && diff.newMode ? "mode" : f.change.size === 0 && f.change.status !== "deleted" ? "empty" : "same",
    );
    return;
  }
  let change = 0; // stretches of changed lines so far, for stepping through them
  let oldNext = 1;
  diff.hunks.forEach((hunk, h) => {
    const lines = options.whitespace ? hunk.lines : withoutWhitespace(hunk.lines);
    if (!whole && hunk.oldStart > oldNext) {
      const at = oldNext;
      rows.push({
        kind: "fold",
        file,
        key: `${id}\nf${at}`,
        at,
        count: hunk.oldStart - at,
        section: hunk.section,
        edge: h === 0 ? "top" : "middle",
      });
    }
    const visible = whole ? fold(lines, f.opened) : [{ lines }];
    visible.forEach((part, i) => {
      if ("at" in part) {
        rows.push({
          kind: "fold",
          file,
          key: `${id}\nf${part.at}`,
          at: part.at,
          count: part.count,
          section: "",
          edge: i === 0 ? "top" : i === visible.length - 1 ? "bottom" : "middle",
        });
        return;
      }
      change = lineRows(part.lines, file, id, options.split, change, rows);
    });
    oldNext = hunk.oldStart + hunk.oldLines;
  });
  const oneSided = f.change.status === "untracked" || f.change.status === "added" || f.change.status === "deleted";
  if (!whole && !oneSided) {
    rows.push({ kind: "fold", file, key: `${id}\nf${oldNext}`, at: oldNext, count: -1, section: "", edge: "bottom" });
  }
}

type Part = { lines: DiffLine[] } | { at: number; count: number };

/** Folds long stretches of unchanged lines of a whole file, as far as a person has not opened them. */
export function fold(lines: DiffLine[], opened: Opened): Part[] {
  const out: Part[] = [];
  let plain: DiffLine[] = [];
  const flush = () => {
    if (plain.length > 0) out.push({ lines: plain });
    plain = [];
  };
  for (let i = 0; i < lines.length; ) {
    if (lines[i]!.kind !== "context") {
      plain.push(lines[i++]!);
      continue;
    }
    let end = i;
    while (end < lines.length && lines[end]!.kind === "context") end++;
    const head = i === 0 ? 0 : CONTEXT;
    const tail = end === lines.length ? 0 : CONTEXT;
    const hidden = end - i - head - tail;
    if (hidden < 1) {
      plain.push(...lines.slice(i, end));
      i = end;
      continue;
    }
    const at = lines[i + head]!.old ?? 0;
    const open = opened.get(at) ?? { top: 0, bottom: 0 };
    const left = hidden - open.top - open.bottom;
    plain.push(...lines.slice(i, i + head + Math.min(open.top, hidden)));
    if (left > 0) {
      flush();
      out.push({ at, count: left });
    }
    plain.push(...lines.slice(Math.max(i + head + Math.min(open.top, hidden), end - tail - open.bottom), end));
    i = end;
  }
  flush();
  return out;
}

function lineRows(lines: DiffLine[], file: number, id: string, split: boolean, change: number, rows: Row[]): number {
  let n = change;
  let inChange = false;
  const step = (l: DiffLine | undefined) => {
    if (!l || l.kind === "context") inChange = false;
    else if (!inChange) {
      inChange = true;
      n++;
    }
    return inChange ? n : 0;
  };
  if (!split) {
    for (const line of lines) {
      rows.push({
        kind: "line",
        file,
        key: `${id}\n${line.old ?? ""}:${line.new ?? ""}${line.kind[0]}`,
        line,
        change: step(line),
      });
    }
    return n;
  }
  for (let i = 0; i < lines.length; ) {
    const line = lines[i]!;
    if (line.kind === "context") {
      step(line);
      rows.push({ kind: "pair", file, key: `${id}\n${line.old}:${line.new}p`, left: line, right: line, change: 0 });
      i++;
      continue;
    }
    const dels: DiffLine[] = [];
    const adds: DiffLine[] = [];
    while (lines[i]?.kind === "del") dels.push(lines[i++]!);
    while (lines[i]?.kind === "add") adds.push(lines[i++]!);
    for (let k = 0; k < Math.max(dels.length, adds.length); k++) {
      const left = dels[k];
      const right = adds[k];
      rows.push({
        kind: "pair",
        file,
        key: `${id}\n${left?.old ?? ""}:${right?.new ?? ""}p`,
        left,
        right,
        change: step(left ?? right),
      });
    }
  }
  return n;
}
