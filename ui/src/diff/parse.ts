/** A line of a diff. Numbers are 1-based and absent on the side where the line is not. */
export interface DiffLine {
  kind: "context" | "add" | "del";
  text: string;
  old?: number;
  new?: number;
  /** The file ends here without a line break. */
  noNewline?: boolean;
  /** The line this one replaces or is replaced by, for marks on words. */
  pair?: DiffLine;
}

export interface Hunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  /** What git names as the surrounding function. */
  section: string;
  lines: DiffLine[];
}

export interface FileDiff {
  hunks: Hunk[];
  binary: boolean;
  oldMode: string;
  newMode: string;
  encoding: "utf-8" | "latin-1";
}

/** Decodes bytes as UTF-8, or as Latin-1 when they are not: every byte is shown as something. */
export function decodeText(bytes: Uint8Array): { text: string; encoding: "utf-8" | "latin-1" } {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), encoding: "utf-8" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), encoding: "latin-1" };
  }
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

/** Reads the unified diff of one file as git writes it. Lines it does not know are passed over. */
export function parseDiff(bytes: Uint8Array): FileDiff {
  const { text, encoding } = decodeText(bytes);
  const diff: FileDiff = { hunks: [], binary: false, oldMode: "", newMode: "", encoding };
  let hunk: Hunk | undefined;
  let oldLeft = 0;
  let newLeft = 0;
  let oldAt = 0;
  let newAt = 0;
  for (let at = 0; at < text.length; ) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    const line = text.slice(at, end);
    at = end + 1;
    // Counts, not the look of a line, say where a hunk ends: its content may look like a header.
    if (hunk && (oldLeft > 0 || newLeft > 0)) {
      const mark = line.charCodeAt(0);
      if (mark === 43 /* + */) {
        hunk.lines.push({ kind: "add", text: line.slice(1), new: newAt++ });
        newLeft--;
        continue;
      }
      if (mark === 45 /* - */) {
        hunk.lines.push({ kind: "del", text: line.slice(1), old: oldAt++ });
        oldLeft--;
        continue;
      }
      if (mark === 32 || line === "") {
        hunk.lines.push({ kind: "context", text: line.slice(1), old: oldAt++, new: newAt++ });
        oldLeft--;
        newLeft--;
        continue;
      }
    }
    if (line.startsWith("\\")) {
      const last = hunk?.lines.at(-1);
      if (last) last.noNewline = true;
      continue;
    }
    const head = HUNK.exec(line);
    if (head) {
      oldAt = Number(head[1]);
      newAt = Number(head[3]);
      oldLeft = head[2] === undefined ? 1 : Number(head[2]);
      newLeft = head[4] === undefined ? 1 : Number(head[4]);
      hunk = {
        oldStart: oldAt,
        oldLines: oldLeft,
        newStart: newAt,
        newLines: newLeft,
        section: head[5] ?? "",
        lines: [],
      };
      diff.hunks.push(hunk);
    } else if (line.startsWith("old mode ")) diff.oldMode = line.slice(9);
    else if (line.startsWith("new mode ")) diff.newMode = line.slice(9);
    else if (line.startsWith("new file mode ")) diff.newMode = line.slice(14);
    else if (line.startsWith("deleted file mode ")) diff.oldMode = line.slice(18);
    else if (line.startsWith("Binary files ") || line === "GIT binary patch") diff.binary = true;
  }
  for (const h of diff.hunks) pairLines(h.lines);
  return diff;
}

/** Joins each removed line with the added one at the same place of the block that follows. */
export function pairLines(lines: DiffLine[]): void {
  for (const block of blocks(lines)) {
    const n = Math.min(block.dels.length, block.adds.length);
    for (let i = 0; i < n; i++) {
      block.dels[i]!.pair = block.adds[i];
      block.adds[i]!.pair = block.dels[i];
    }
  }
}

interface Block {
  start: number;
  end: number;
  dels: DiffLine[];
  adds: DiffLine[];
}

/** The stretches of removed lines with the added ones right behind. */
export function blocks(lines: readonly DiffLine[]): Block[] {
  const out: Block[] = [];
  for (let i = 0; i < lines.length; ) {
    if (lines[i]!.kind === "context") {
      i++;
      continue;
    }
    const start = i;
    const dels: DiffLine[] = [];
    const adds: DiffLine[] = [];
    while (lines[i]?.kind === "del") dels.push(lines[i++]!);
    while (lines[i]?.kind === "add") adds.push(lines[i++]!);
    out.push({ start, end: i, dels, adds });
  }
  return out;
}

/** The same lines with changes of white space only shown as unchanged. */
export function withoutWhitespace(lines: readonly DiffLine[]): DiffLine[] {
  const out: DiffLine[] = [];
  let at = 0;
  for (const block of blocks(lines)) {
    out.push(...lines.slice(at, block.start));
    at = block.end;
    let d = 0;
    const dels: DiffLine[] = [];
    const adds: DiffLine[] = [];
    const flush = () => {
      out.push(...dels, ...adds);
      dels.length = 0;
      adds.length = 0;
    };
    for (const add of block.adds) {
      // The next removed line that reads the same, not further ahead than a screenful.
      let same = -1;
      for (let i = d; i < Math.min(block.dels.length, d + 60); i++) {
        if (squeeze(block.dels[i]!.text) === squeeze(add.text)) {
          same = i;
          break;
        }
      }
      if (same < 0) {
        adds.push({ ...add, pair: undefined });
        continue;
      }
      for (; d < same; d++) dels.push({ ...block.dels[d]!, pair: undefined });
      flush();
      out.push({ kind: "context", text: add.text, old: block.dels[same]!.old, new: add.new });
      d = same + 1;
    }
    for (; d < block.dels.length; d++) dels.push({ ...block.dels[d]!, pair: undefined });
    flush();
  }
  out.push(...lines.slice(at));
  pairLines(out);
  return out;
}

const squeeze = (text: string): string => text.replace(/\s+/g, "");
