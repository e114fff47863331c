import type { FilePatch } from "./lines";
import { parsePatch } from "./patch";

export interface PatchAsk {
  id: number;
  bytes: Uint8Array<ArrayBuffer>;
}

export interface PatchAnswer {
  id: number;
  files: FilePatch[];
}

self.onmessage = (m: MessageEvent<PatchAsk>) => {
  const { id, bytes } = m.data;
  const files = parsePatch(bytes);
  const moved: Transferable[] = [bytes.buffer];
  for (const f of files)
    for (const t of [f.start, f.end, f.kind, f.old, f.new, f.columns, f.pair]) moved.push(t.buffer as ArrayBuffer);
  self.postMessage({ id, files } satisfies PatchAnswer, { transfer: moved });
};
