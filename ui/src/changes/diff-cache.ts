import type { FilePatch } from "./diff/lines";

/** Total size of cached diffs in bytes; beyond it the least recently used are evicted. */
const MOST = 12_000_000;

/**
 * A cache of parsed diffs by content: the same change of a file has the same lines in every comparison. A user who comes
 * back to a workspace, or opens one that was prefetched, sees them immediately.
 */
export class DiffCache {
  private readonly items = new Map<string, { patch: FilePatch; size: number }>();
  private size = 0;

  constructor(private readonly most = MOST) {}

  get(key: string): FilePatch | undefined {
    const it = this.items.get(key);
    if (!it) return undefined;
    this.items.delete(key); // the most recently used are last
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
