import { ask } from "@/highlight/highlight";
import { languageOf } from "@/highlight/language";
import type { Tokens } from "@/highlight/segments";
import { CUT, type FilePatch, KIND_ADD, KIND_DEL, lineText } from "./lines";

/** Longer text is not highlighted, so highlighting never delays the page. */
const MOST = 400_000;

/** Classes by number; 0 is plain text. */
const NAMES: string[] = [""];
const NUMBERS = new Map<string, number>([["", 0]]);

/** The colours of a file's lines: lengths and classes in turn in `data`, those of line i from at[i] to at[i + 1]. */
interface Colors {
  at: Uint32Array;
  data: Uint16Array;
}

const known = new WeakMap<FilePatch, Colors | "asked">();

export function tokensOf(p: FilePatch, i: number): Tokens | undefined {
  const c = known.get(p);
  if (!c || c === "asked") return undefined;
  const from = c.at[i]!;
  const to = c.at[i + 1]!;
  if (to <= from) return undefined;
  const out: [number, string][] = [];
  for (let k = from; k < to; k += 2) out.push([c.data[k]!, NAMES[c.data[k + 1]!]!]);
  return out;
}

/** Whether a file's highlighting is ready. */
export const isColored = (p: FilePatch): boolean => typeof known.get(p) === "object";

/** Colours a file's lines in the background and calls back when they are there. Each diff is highlighted once. */
export function color(path: string, patch: FilePatch, done: () => void): void {
  const language = languageOf(path);
  if (!language || known.has(patch) || patch.kind.length === 0) return;
  known.set(patch, "asked");
  const n = patch.kind.length;
  if (patch.end[n - 1]! - patch.start[0]! > MOST) return;
  const lines = new Array<Tokens | undefined>(n);
  const work = patch.hunks.flatMap((hunk) =>
    // Each side is read as a text of its own: a comment opened on one side must not colour the other.
    [KIND_ADD, KIND_DEL].map(async (other) => {
      const side: number[] = [];
      let changed = false;
      for (let i = hunk.first; i < hunk.first + hunk.count; i++) {
        const kind = patch.kind[i]! & 3;
        if (kind === other) continue;
        if (kind !== 0) changed = true;
        side.push(i);
      }
      // The old side is for the lines it alone has.
      if (other === KIND_ADD && !changed) return;
      const found = await ask(language, side.map((i) => cut(patch, i)).join("\n"));
      side.forEach((i, k) => {
        const t = found[k];
        if (t && t.length > 0 && ((patch.kind[i]! & 3) !== 0 || other === KIND_DEL)) lines[i] = t;
      });
    }),
  );
  void Promise.all(work).then(() => {
    known.set(patch, pack(lines));
    done();
  });
}

function cut(p: FilePatch, i: number): string {
  return p.end[i]! - p.start[i]! > CUT * 4 ? "" : lineText(p, i);
}

function pack(lines: readonly (Tokens | undefined)[]): Colors {
  const at = new Uint32Array(lines.length + 1);
  let size = 0;
  for (let i = 0; i < lines.length; i++) {
    at[i] = size;
    size += (lines[i]?.length ?? 0) * 2;
  }
  at[lines.length] = size;
  const data = new Uint16Array(size);
  for (let i = 0; i < lines.length; i++) {
    let k = at[i]!;
    for (const [length, cls] of lines[i] ?? []) {
      data[k++] = Math.min(length, 0xffff);
      data[k++] = numberOf(cls);
    }
  }
  return { at, data };
}

function numberOf(cls: string): number {
  let n = NUMBERS.get(cls);
  if (n === undefined) {
    n = NAMES.push(cls) - 1;
    NUMBERS.set(cls, n);
  }
  return n;
}
