import { type FilePatch, type HunkHead, KIND_ADD, KIND_CONTEXT, KIND_DEL } from "./lines";
import type { ChangedFile, SideName } from "./types";

/** Context lines around a change, the same number as git's default. */
export const CONTEXT = 3;
/** How many lines one press unfolds. */
export const STEP = 20;

/** What is known of one file's diff. `hunks` are the ones git names, also when the whole file is there. */
export type Loaded =
  | { state: "none" }
  | { state: "loading" }
  | { state: "error"; error: unknown }
  | { state: "ready"; patch: FilePatch; hunks: readonly HunkHead[]; whole: boolean };

/** Expanded folds: keyed by the old line number of the fold's start, the lines shown from its top and bottom. */
export type Opened = ReadonlyMap<number, { top: number; bottom: number }>;

export interface FileView {
  /** Of its path: the same in every state of the workspace. */
  id: number;
  file: ChangedFile;
  loaded: Loaded;
  /** The user's choice; undefined follows the default. */
  folded: boolean | undefined;
  opened: Opened;
  viewed: boolean;
}

/** Where something stands below a line; line 0 is the file's head. */
export interface Anchor {
  key: string;
  side: SideName;
  line: number;
}

export type Note = "loading" | "error" | "folded" | "binary" | "mode" | "empty" | "same" | "latin" | "cut";

/** A row that is no line of code. `key` is unique within its file. */
export type Special =
  | { kind: "file"; key: "file" }
  | { kind: "note"; key: string; note: Note }
  | { kind: "gap"; key: string; at: number; count: number; edge: "top" | "middle" | "bottom"; hunk?: HunkHead }
  | { kind: "slot"; key: string; slot: string }
  | { kind: "picture"; key: "picture" }
  | { kind: "end"; key: "end" };

/**
 * The rows of one file as numbers. Of a line in one column `a` is its index and `b` SINGLE; side by side `a` and `b` are the indexes
 * left and right, or NONE; of another row `a` is FIRST_SPECIAL minus its index among `specials`.
 */
export interface FileRows {
  n: number;
  a: Int32Array;
  b: Int32Array;
  specials: Special[];
  /** Something stands below a line that is not loaded. */
  wantsWhole: boolean;
}

export const NONE = -1;
export const SINGLE = -2;
export const FIRST_SPECIAL = -3;

export const specialAt = (r: FileRows, i: number): Special | undefined =>
  r.a[i]! <= FIRST_SPECIAL ? r.specials[FIRST_SPECIAL - r.a[i]!] : undefined;

/** A row's name within its file: it stays the same while the row is the same thing. */
export function rowKey(r: FileRows, i: number): string {
  return specialAt(r, i)?.key ?? `${r.a[i]}:${r.b[i]}`;
}

export interface RowOptions {
  split: boolean;
  /** Every hunk has a head, also where nothing is hidden before it. */
  hunkHeads: boolean;
}

export function isFolded(f: FileView): boolean {
  if (f.file.folded === "secret") return true;
  return f.folded ?? (f.viewed || (f.file.folded !== "" && !showsPicture(f.file)));
}

/** Bytes; larger images load only on request. */
const LARGEST_PICTURE = 10_000_000;

const isPicture = (path: string): boolean => /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i.test(path);

/** Whether a file is shown as a picture, both sides of it. */
export const showsPicture = (f: ChangedFile): boolean => f.binary && isPicture(f.path) && f.size < LARGEST_PICTURE;

/** All rows of one file, its head first. */
export function fileRows(f: FileView, options: RowOptions, anchors: readonly Anchor[] = []): FileRows {
  const out = new Builder(options, anchors);
  out.special({ kind: "file", key: "file" });
  if (isFolded(f)) {
    const said = f.file.folded === "secret" || (f.folded === undefined && !f.viewed);
    if (f.file.folded !== "" && said) out.note("folded");
    return out.done();
  }
  for (const s of anchors) if (s.line === 0) out.special({ kind: "slot", key: `s${s.key}`, slot: s.key });
  if (showsPicture(f.file)) out.special({ kind: "picture", key: "picture" });
  else if (f.file.binary) out.note("binary");
  else if (f.loaded.state === "none" || f.loaded.state === "loading") out.note("loading");
  else if (f.loaded.state === "error") out.note("error");
  else body(f, f.loaded, out);
  out.special({ kind: "end", key: "end" });
  return out.done();
}

export const oneSided = (f: ChangedFile): boolean => f.status === "added" || f.status === "deleted";

function body(f: FileView, loaded: Extract<Loaded, { state: "ready" }>, out: Builder): void {
  const { patch: p, hunks, whole } = loaded;
  if (p.binary) {
    out.note("binary");
    return;
  }
  if (p.latin) out.note("latin");
  if (p.hunks.length === 0) {
    const modes = f.file.old_mode !== f.file.mode && !oneSided(f.file);
    out.note(modes ? "mode" : f.file.size === 0 && f.file.status !== "deleted" ? "empty" : "same");
    return;
  }
  out.patch = p;
  if (whole) {
    wholeRows(p, hunks, f.opened, out);
    out.rest();
    return;
  }
  let oldNext = 1;
  p.hunks.forEach((hunk, h) => {
    const start = firstOld(hunk);
    const count = Math.max(0, start - oldNext);
    if (count > 0 || (out.options.hunkHeads && !oneSided(f.file)))
      out.special({ kind: "gap", key: `g${oldNext}`, at: oldNext, count, edge: h === 0 ? "top" : "middle", hunk });
    out.lines(hunk.first, hunk.first + hunk.count);
    oldNext = start + hunk.oldLines;
  });
  if (!oneSided(f.file) && !endsThere(p))
    out.special({ kind: "gap", key: `g${oldNext}`, at: oldNext, count: -1, edge: "bottom" });
  out.rest();
}

/** Whether the last lines are the file's last: git gives fewer lines around a change only where there are no more. */
function endsThere(p: FilePatch): boolean {
  let around = 0;
  for (let i = p.kind.length - 1; i >= 0 && (p.kind[i]! & 3) === KIND_CONTEXT; i--) around++;
  return around < CONTEXT;
}

/** git counts a side without lines from the line before. */
const firstOld = (h: HunkHead): number => (h.oldLines === 0 ? h.oldStart + 1 : h.oldStart);
const firstNew = (h: HunkHead): number => (h.newLines === 0 ? h.newStart + 1 : h.newStart);

/** Rows of a fully loaded file, with long runs of unchanged lines folded. */
function wholeRows(p: FilePatch, hunks: readonly HunkHead[], opened: Opened, out: Builder): void {
  const n = p.kind.length;
  const heads = new Map(hunks.map((h) => [`${firstOld(h)}:${firstNew(h)}`, h]));
  const headOf = (i: number): HunkHead | undefined => {
    // Of a line that is on one side only the number of the other side is the next one's that has it.
    let oldAt = p.old[i]!;
    let newAt = p.new[i]!;
    for (let k = i; !oldAt && k < n; k++) oldAt = p.old[k]!;
    for (let k = i; !newAt && k < n; k++) newAt = p.new[k]!;
    return heads.get(`${oldAt || (p.old[n - 1]! || 0) + 1}:${newAt || (p.new[n - 1]! || 0) + 1}`);
  };
  let from = 0; // lines from here on were not written yet
  const write = (to: number) => {
    if (to > from) out.lines(from, to);
    from = to;
  };
  const bare = (i: number) => {
    if (!out.options.hunkHeads) return;
    const hunk = headOf(i);
    if (!hunk) return;
    write(i);
    out.special({ kind: "gap", key: `h${hunk.oldStart}:${hunk.newStart}`, at: 0, count: 0, edge: "middle", hunk });
  };
  for (let i = 0; i < n; ) {
    if (!out.quiet(i)) {
      i++;
      continue;
    }
    let end = i;
    while (end < n && out.quiet(end)) end++;
    const head = i === 0 ? 0 : CONTEXT;
    const tail = end === n ? 0 : CONTEXT;
    const hidden = end - i - head - tail;
    if (hidden >= 1) {
      const at = p.old[i + head]!;
      const open = opened.get(at) ?? { top: 0, bottom: 0 };
      const top = Math.min(open.top, hidden);
      const left = Math.max(0, hidden - top - open.bottom);
      if (left > 0) {
        write(i + head + top);
        const edge = i === 0 ? "top" : end === n ? "bottom" : "middle";
        const hunk = open.bottom === 0 && end < n ? headOf(end - tail) : undefined;
        out.special({ kind: "gap", key: `g${at}`, at, count: left, edge, hunk });
        from = i + head + top + left;
        if (!hunk && end < n) bare(end - tail);
      } else if (end < n) bare(end - tail);
    } else if (i === 0) bare(0);
    i = end;
  }
  write(n);
}

class Builder {
  private a: number[] = [];
  private b: number[] = [];
  private readonly specials: Special[] = [];
  private readonly old = new Map<number, Anchor[]>();
  private readonly new = new Map<number, Anchor[]>();
  private readonly left = new Set<Anchor>();
  private wantsWhole = false;
  patch: FilePatch | undefined;

  constructor(
    readonly options: RowOptions,
    anchors: readonly Anchor[],
  ) {
    for (const s of anchors) {
      if (s.line === 0) continue;
      const side = this[s.side];
      side.set(s.line, [...(side.get(s.line) ?? []), s]);
      this.left.add(s);
    }
  }

  special(s: Special): void {
    this.a.push(FIRST_SPECIAL - this.specials.length);
    this.b.push(SINGLE);
    this.specials.push(s);
  }

  note(note: Note): void {
    this.special({ kind: "note", key: note, note });
  }

  /** Whether a line may be folded: it is unchanged and has no widget below it. */
  quiet(i: number): boolean {
    const p = this.patch!;
    return (p.kind[i]! & 3) === KIND_CONTEXT && !this.old.has(p.old[i]!) && !this.new.has(p.new[i]!);
  }

  lines(from: number, to: number): void {
    const { kind } = this.patch!;
    if (!this.options.split) {
      for (let i = from; i < to; i++) {
        this.a.push(i);
        this.b.push(SINGLE);
        this.below(i, NONE);
      }
      return;
    }
    for (let i = from; i < to; ) {
      if ((kind[i]! & 3) === KIND_CONTEXT) {
        this.pair(i, i);
        i++;
        continue;
      }
      const dels = i;
      while (i < to && (kind[i]! & 3) === KIND_DEL) i++;
      const adds = i;
      while (i < to && (kind[i]! & 3) === KIND_ADD) i++;
      for (let k = 0; k < Math.max(adds - dels, i - adds); k++)
        this.pair(dels + k < adds ? dels + k : NONE, adds + k < i ? adds + k : NONE);
    }
  }

  private pair(left: number, right: number): void {
    this.a.push(left);
    this.b.push(right);
    this.below(left, right);
  }

  private below(i: number, k: number): void {
    if (this.left.size === 0) return;
    const p = this.patch!;
    for (const line of i === k ? [i] : [i, k]) {
      if (line < 0) continue;
      for (const s of p.old[line] ? (this.old.get(p.old[line]!) ?? []) : []) this.slot(s);
      for (const s of p.new[line] ? (this.new.get(p.new[line]!) ?? []) : []) this.slot(s);
    }
  }

  private slot(s: Anchor): void {
    if (!this.left.delete(s)) return;
    this.special({ kind: "slot", key: `s${s.key}`, slot: s.key });
  }

  /** Widgets below missing lines are shown at the end of the file, so none is lost. */
  rest(): void {
    if (this.left.size === 0) return;
    this.wantsWhole = true;
    for (const s of [...this.left]) this.slot(s);
  }

  done(): FileRows {
    return {
      n: this.a.length,
      a: Int32Array.from(this.a),
      b: Int32Array.from(this.b),
      specials: this.specials,
      wantsWhole: this.wantsWhole,
    };
  }
}

/** Whether a block of changed lines starts at this row. */
export function isChangeStart(r: FileRows, p: FilePatch | undefined, i: number): boolean {
  return p !== undefined && changed(r, p, i) && (i === 0 || !changed(r, p, i - 1));
}

function changed(r: FileRows, p: FilePatch, i: number): boolean {
  const a = r.a[i]!;
  if (a <= FIRST_SPECIAL) return specialAt(r, i)?.kind === "slot" && i > 0 && changed(r, p, i - 1);
  const line = a >= 0 ? a : r.b[i]!;
  return line >= 0 && (p.kind[line]! & 3) !== KIND_CONTEXT;
}

/** The row that shows a line; -1 when none does. */
export function rowOfLine(r: FileRows, line: number): number {
  for (let i = 0; i < r.n; i++) if (r.a[i] === line || r.b[i] === line) return i;
  return -1;
}
