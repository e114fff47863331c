import type { FilePatch } from "./diff/lines";

/** Bytes of diffs that are kept in all: beyond, those used longest ago go. */
const MOST = 12_000_000;

/**
 * Diffs that were read already, by what they are between: the same change of a file has the same lines in every comparison. Whoever comes
 * back to a workspace, or comes to one that was read ahead, sees them at once.
 */
export class Kept {
  private readonly items = new Map<string, { patch: FilePatch; size: number }>();
  private size = 0;

  constructor(private readonly most = MOST) {}

  get(key: string): FilePatch | undefined {
    const it = this.items.get(key);
    if (!it) return undefined;
    this.items.delete(key); // the newest stand last
    this.items.set(key, it);
    return it.patch;
  }

  put(key: string, patch: FilePatch): void {
    if (this.items.has(key)) return;
    const n = patch.kind.length;
    const text = n > 0 ? patch.end[n - 1]! - patch.start[0]! : 0;
    const size = text + n * 23 + 500; // what the tables of lines take
    if (size > this.most / 2) return;
    this.items.set(key, { patch, size });
    this.size += size;
    for (const [old, it] of this.items) {
      if (this.size <= this.most) return;
      this.items.delete(old);
      this.size -= it.size;
    }
  }
}
