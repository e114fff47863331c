import type { HighlightAnswer, HighlightAsk } from "./highlight.worker";
import { languageOf } from "./language";
import type { DiffLine, FileDiff } from "./parse";
import { CUT } from "./rows";
import type { Tokens } from "./segments";

/** Text beyond this is shown plain: highlighting must never hold anything up. */
const MOST = 400_000;

let worker: Worker | undefined;
let asks = 0;
const waiting = new Map<number, (lines: Tokens[]) => void>();

function ask(language: string, text: string): Promise<Tokens[]> {
  worker ??= start();
  const id = ++asks;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker?.postMessage({ id, language, text } satisfies HighlightAsk);
  });
}

function start(): Worker {
  const w = new Worker(new URL("./highlight.worker.ts", import.meta.url), { type: "module" });
  w.onmessage = (m: MessageEvent<HighlightAnswer>) => {
    waiting.get(m.data.id)?.(m.data.lines);
    waiting.delete(m.data.id);
  };
  w.onerror = () => {
    for (const resolve of waiting.values()) resolve([]);
    waiting.clear();
  };
  return w;
}

/** Highlights a text by lines; none for one that is too long or in a language nobody knows. */
export const highlightText = (language: string, text: string): Promise<Tokens[]> =>
  text.length > MOST ? Promise.resolve([]) : ask(language, text);

/** Tokens by line: the same line object is shown in several views. */
const tokens = new WeakMap<DiffLine, Tokens>();
const asked = new WeakSet<FileDiff>();

export const tokensOf = (line: DiffLine): Tokens | undefined => tokens.get(line);

/** Highlights a file's lines in the background and calls back when they are there. Each diff is done once. */
export function highlight(path: string, diff: FileDiff, done: () => void): void {
  const language = languageOf(path);
  if (!language || asked.has(diff)) return;
  asked.add(diff);
  void Promise.all(
    diff.hunks.flatMap((hunk) =>
      // Each side is read as a text of its own: a comment opened on one side must not colour the other.
      (["del", "add"] as const).map(async (side) => {
        const lines = hunk.lines.filter((l) => l.kind === side || l.kind === "context");
        if (!lines.some((l) => l.kind === side) && side === "del") return;
        const text = lines.map((l) => (l.text.length > CUT ? "" : l.text)).join("\n");
        if (text.length > MOST) return;
        const found = await ask(language, text);
        lines.forEach((l, i) => {
          const t = found[i];
          if (t && t.length > 0 && l.text.length <= CUT) tokens.set(l, t);
        });
      }),
    ),
  ).then(done);
}
