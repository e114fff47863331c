import { CUT, type FilePatch, type HunkHead, KIND_ADD, KIND_CONTEXT, KIND_DEL, NO_NEWLINE } from "./lines";
import { header, type PatchName } from "./patchname";

/** How wide a tab is, in columns: the same as in styles/diff.css. */
const TAB = 4;

/**
 * Parses git's unified diff of many files without an object per line: 50,000 lines become a few tables of numbers
 * next to the original bytes. Skips unknown lines.
 */
export function parsePatch(bytes: Uint8Array): FilePatch[] {
  const out: FilePatch[] = [];
  const table = new Table(bytes.length);
  let file: Draft | undefined;
  let hunk: HunkHead | undefined;
  let oldLeft = 0;
  let newLeft = 0;
  let oldAt = 0;
  let newAt = 0;
  const flush = () => {
    if (file) out.push(finish(bytes, table, file));
  };
  for (let at = 0; at < bytes.length; ) {
    let end = bytes.indexOf(10, at);
    if (end < 0) end = bytes.length;
    const mark = bytes[at];
    // The counts in the header decide where a hunk ends, because its content may look like a header.
    if (file && hunk && (oldLeft > 0 || newLeft > 0) && mark !== 92) {
      if (mark === 43 /* + */) {
        table.add(KIND_ADD, at + 1, end, 0, newAt++);
        newLeft--;
        hunk.count++;
        at = end + 1;
        continue;
      }
      if (mark === 45 /* - */) {
        table.add(KIND_DEL, at + 1, end, oldAt++, 0);
        oldLeft--;
        hunk.count++;
        at = end + 1;
        continue;
      }
      if (mark === 32 || at === end) {
        table.add(KIND_CONTEXT, Math.min(at + 1, end), end, oldAt++, newAt++);
        oldLeft--;
        newLeft--;
        hunk.count++;
        at = end + 1;
        continue;
      }
    }
    if (mark === 92 /* \ */) {
      if (file && table.n > file.first) table.kind[table.n - 1]! |= NO_NEWLINE;
      at = end + 1;
      continue;
    }
    const line = ascii(bytes, at, end);
    const head = mark === 64 /* @ */ ? HUNK.exec(line) : null;
    if (head && file) {
      oldAt = Number(head[1]);
      newAt = Number(head[3]);
      oldLeft = head[2] === undefined ? 1 : Number(head[2]);
      newLeft = head[4] === undefined ? 1 : Number(head[4]);
      hunk = {
        first: table.n - file.first,
        count: 0,
        oldStart: oldAt,
        oldLines: oldLeft,
        newStart: newAt,
        newLines: newLeft,
        section: decode(bytes.subarray(at + head[0].length, end)).trim(),
      };
      file.hunks.push(hunk);
    } else if (line.startsWith("diff --git ")) {
      flush();
      hunk = undefined;
      oldLeft = newLeft = 0;
      file = { first: table.n, from: at, name: {}, hunks: [], binary: false, oldMode: "", newMode: "" };
      header(file.name, bytes, at, end);
    } else if (file && !hunk) {
      header(file.name, bytes, at, end);
      if (line.startsWith("old mode ")) file.oldMode = line.slice(9);
      else if (line.startsWith("new mode ")) file.newMode = line.slice(9);
      else if (line.startsWith("new file mode ")) file.newMode = line.slice(14);
      else if (line.startsWith("deleted file mode ")) file.oldMode = line.slice(18);
      else if (line.startsWith("Binary files ") || line === "GIT binary patch") file.binary = true;
    }
    at = end + 1;
  }
  flush();
  return out;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** The beginning of a line, for what git itself writes. */
function ascii(bytes: Uint8Array, from: number, to: number): string {
  return String.fromCharCode(...bytes.subarray(from, Math.min(to, from + 120)));
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const decode = (b: Uint8Array): string => utf8.decode(b);

interface Draft {
  first: number; // of its lines in the table
  from: number; // of its bytes
  name: PatchName;
  hunks: HunkHead[];
  binary: boolean;
  oldMode: string;
  newMode: string;
}

function finish(bytes: Uint8Array, t: Table, f: Draft): FilePatch {
  const n = t.n - f.first;
  const start = t.start.slice(f.first, t.n);
  const end = t.end.slice(f.first, t.n);
  const kind = t.kind.slice(f.first, t.n);
  let latin = false;
  try {
    // A file that is not UTF-8 is shown as Latin-1, where every byte is something.
    if (n > 0) strict.decode(bytes.subarray(start[0]!, end[n - 1]!));
  } catch {
    latin = true;
  }
  const columns = new Uint16Array(n);
  for (let i = 0; i < n; i++) columns[i] = width(bytes, start[i]!, end[i]!, latin);
  return {
    path: f.name.to ?? f.name.from ?? "",
    bytes,
    start,
    end,
    kind,
    old: t.old.slice(f.first, t.n),
    new: t.new.slice(f.first, t.n),
    columns,
    pair: pairs(kind),
    hunks: f.hunks,
    binary: f.binary,
    oldMode: f.oldMode,
    newMode: f.newMode,
    latin,
  };
}

/** How many columns a line takes when it is shown; beyond what is shown of a line it does not matter. */
function width(bytes: Uint8Array, from: number, to: number, latin: boolean): number {
  let n = 0;
  let chars = 0;
  for (let i = from; i < to && chars < CUT; i++) {
    const b = bytes[i]!;
    if (b === 9) n += TAB - (n % TAB);
    else if (b < 0x80 || latin) n++;
    else if (b >= 0xc0)
      n += b >= 0xe3 && b !== 0xef ? 2 : 1; // most scripts of wide letters, and emoji
    else continue;
    chars++;
  }
  return Math.min(n, 0xffff);
}

/** Joins each removed line with the added one at the same place of the block that follows, for marks on words. -1 = alone. */
export function pairs(kind: Uint8Array): Int32Array {
  const out = new Int32Array(kind.length).fill(-1);
  for (let i = 0; i < kind.length; ) {
    if ((kind[i]! & 3) !== KIND_DEL) {
      i++;
      continue;
    }
    const dels = i;
    while (i < kind.length && (kind[i]! & 3) === KIND_DEL) i++;
    const adds = i;
    while (i < kind.length && (kind[i]! & 3) === KIND_ADD) i++;
    for (let k = 0; k < Math.min(adds - dels, i - adds); k++) {
      out[dels + k] = adds + k;
      out[adds + k] = dels + k;
    }
  }
  return out;
}

/** The lines of all files as they are read; it grows by doubling. */
class Table {
  n = 0;
  kind: Uint8Array;
  start: Uint32Array;
  end: Uint32Array;
  old: Uint32Array;
  new: Uint32Array;

  constructor(bytes: number) {
    const size = Math.max(64, Math.ceil(bytes / 30));
    this.kind = new Uint8Array(size);
    this.start = new Uint32Array(size);
    this.end = new Uint32Array(size);
    this.old = new Uint32Array(size);
    this.new = new Uint32Array(size);
  }

  add(kind: number, start: number, end: number, old: number, now: number): void {
    const i = this.n++;
    if (i === this.kind.length) {
      this.kind = grown(this.kind, new Uint8Array(i * 2));
      this.start = grown(this.start, new Uint32Array(i * 2));
      this.end = grown(this.end, new Uint32Array(i * 2));
      this.old = grown(this.old, new Uint32Array(i * 2));
      this.new = grown(this.new, new Uint32Array(i * 2));
    }
    this.kind[i] = kind;
    this.start[i] = start;
    this.end[i] = end;
    this.old[i] = old;
    this.new[i] = now;
  }
}

function grown<T extends Uint8Array | Uint32Array>(old: T, next: T): T {
  next.set(old);
  return next;
}
