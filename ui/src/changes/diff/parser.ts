import { t } from "@lingui/core/macro";
import type { FilePatch } from "./lines";
import { parsePatch } from "./patch";
import type { PatchAnswer, PatchAsk } from "./patch.worker";

let worker: Worker | undefined;
let broken = false;
let asks = 0;
const waiting = new Map<number, { resolve: (files: FilePatch[]) => void; reject: (e: Error) => void }>();

/** Starts the worker in advance, so the first diff does not wait for it. */
export function warmUp(): void {
  if (worker || broken || typeof Worker === "undefined") return;
  worker = new Worker(new URL("./patch.worker.ts", import.meta.url), { type: "module" });
  worker.onmessage = (m: MessageEvent<PatchAnswer>) => {
    waiting.get(m.data.id)?.resolve(m.data.files);
    waiting.delete(m.data.id);
  };
  worker.onerror = () => {
    broken = true;
    worker = undefined;
    for (const w of waiting.values())
      w.reject(new Error(t`The changes could not be read in the background. Try again.`));
    waiting.clear();
  };
}

/** Parses a diff in the worker and transfers the bytes to it. Without a worker, parses on the main thread. */
export function parse(bytes: Uint8Array<ArrayBuffer>): Promise<FilePatch[]> {
  warmUp();
  const w = worker;
  if (!w) return Promise.resolve(parsePatch(bytes));
  const id = ++asks;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    w.postMessage({ id, bytes } satisfies PatchAsk, [bytes.buffer]);
  });
}
