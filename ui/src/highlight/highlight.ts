import type { HighlightAnswer, HighlightAsk } from "./highlight.worker";
import type { Tokens } from "./segments";

/** Longer text is not highlighted, so highlighting never delays the page. */
const MOST = 400_000;

let worker: Worker | undefined;
let asks = 0;
const waiting = new Map<number, (lines: Tokens[]) => void>();

/** Starts the worker in advance. */
export function warmUp(): void {
  if (typeof Worker !== "undefined") worker ??= start();
}

/** Highlights a text by lines in the background. */
export function ask(language: string, text: string): Promise<Tokens[]> {
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
