import type { Change, ChangeSet } from "@/api/client";
import { Store } from "@/state/store";
import { highlight } from "./highlight";
import { parseDiff } from "./parse";
import { type FileView, fileRows, isFolded, type Row, type RowOptions, STEP } from "./rows";

/** What the page shows of a review. A new object whenever something changed. */
export interface ReviewView {
  files: readonly FileView[];
  rows: readonly Row[];
  /** Index of each file's head among the rows. */
  heads: readonly number[];
  options: RowOptions;
  set: ChangeSet | undefined;
  /** Changes with highlighting that came in later. */
  paint: number;
}

type Load = (path: string, stamp: string, whole: boolean) => Promise<Uint8Array>;

/** At most this many diffs are asked for at once. */
const AT_ONCE = 4;

/**
 * The state of reading a set of changes: which files are loaded, folded, opened and viewed, and the rows that follow from it.
 * It lives outside React so that 50,000 files and late diffs cost one update each, not one render of everything.
 */
export class Review {
  readonly view = new Store<ReviewView>({
    files: [],
    rows: [],
    heads: [],
    options: { split: false, whitespace: true },
    set: undefined,
    paint: 0,
  });
  private files: FileView[] = [];
  private rowsOf: (Row[] | undefined)[] = [];
  private set: ChangeSet | undefined;
  private options: RowOptions = { split: false, whitespace: true };
  private queue: { path: string; whole: boolean }[] = [];
  private running = 0;
  private paint = 0;
  private publishing = false;
  private dead = false;

  constructor(
    private readonly load: Load,
    private viewed: ReadonlyMap<string, string> = new Map(),
    private readonly later: (run: () => void) => void = (run) => requestAnimationFrame(run),
    private readonly color: typeof highlight = highlight,
  ) {}

  /** Begins, or goes on after a stop. Returns what stops it: diffs under way are dropped. */
  start(): () => void {
    this.dead = false;
    return () => {
      this.dead = true;
      this.queue = [];
    };
  }

  /** Shows another state of the workspace. What did not change keeps its diff, folds and place. */
  show(set: ChangeSet): void {
    const before = new Map(this.files.map((f, i) => [f.change.path, { f, rows: this.rowsOf[i] }]));
    const old = this.set;
    this.set = set;
    const rowsOf: (Row[] | undefined)[] = [];
    this.files = set.items.map((change, i) => {
      const known = before.get(change.path);
      const same = known && old && stampOf(known.f.change, old) === stampOf(change, set);
      const viewed = this.viewed.get(change.path) === stampOf(change, set);
      if (same && known) {
        const kept = { ...known.f, change };
        // Rows carry their file's number: they hold only while the file stays at its place.
        rowsOf.push(before.size > 0 && known.rows?.[0]?.file === i ? known.rows : undefined);
        return kept;
      }
      rowsOf.push(undefined);
      return { change, loaded: { state: "none" }, folded: known?.f.folded, opened: new Map(), viewed };
    });
    this.rowsOf = rowsOf;
    this.publish();
  }

  setOptions(options: RowOptions): void {
    this.options = options;
    this.rowsOf = this.files.map(() => undefined);
    this.publish();
  }

  /** Loads the files that are on screen, if nobody did so yet. The ones asked for last come first. */
  need(indexes: readonly number[]): void {
    for (const i of indexes) {
      const f = this.files[i];
      if (f?.loaded.state !== "none" || isFolded(f) || f.change.binary) continue;
      this.patch(i, { loaded: { state: "loading" } });
      this.queue.unshift({ path: f.change.path, whole: false });
    }
    this.pump();
  }

  retry(i: number): void {
    this.patch(i, { loaded: { state: "none" } });
    this.need([i]);
  }

  toggleFold(i: number): void {
    const f = this.files[i];
    if (!f) return;
    this.patch(i, { folded: !isFolded(f) });
    this.need([i]);
  }

  unfold(i: number): void {
    const f = this.files[i];
    if (f && isFolded(f)) this.toggleFold(i);
  }

  /** Marks a file as viewed in the state it has, and folds it; or takes the mark off. Returns all marks. */
  toggleViewed(i: number): ReadonlyMap<string, string> {
    const f = this.files[i];
    if (!f || !this.set) return this.viewed;
    const marks = new Map(this.viewed);
    if (f.viewed) marks.delete(f.change.path);
    else marks.set(f.change.path, stampOf(f.change, this.set));
    this.viewed = marks;
    this.patch(i, { viewed: !f.viewed, folded: undefined });
    this.need([i]);
    return marks;
  }

  /** Opens a fold: some lines from its top or bottom, or all of it. */
  open(i: number, at: number, how: "top" | "bottom" | "all"): void {
    const f = this.files[i];
    if (!f) return;
    const opened = new Map(f.opened);
    const now = opened.get(at) ?? { top: 0, bottom: 0 };
    if (how === "all") opened.set(at, { top: Number.MAX_SAFE_INTEGER, bottom: 0 });
    else opened.set(at, { ...now, [how]: now[how] + STEP });
    this.patch(i, { opened });
    // The diff as it came has a few lines around each change: the rest needs the whole file.
    if (f.loaded.state === "ready" && !f.loaded.whole) {
      this.queue.unshift({ path: f.change.path, whole: true });
      this.pump();
    }
  }

  private pump(): void {
    while (this.running < AT_ONCE && this.queue.length > 0) {
      const ask = this.queue.shift()!;
      this.running++;
      void this.fetch(ask.path, ask.whole).finally(() => {
        this.running--;
        if (!this.dead) this.pump();
      });
    }
  }

  private async fetch(path: string, whole: boolean): Promise<void> {
    const change = this.files[this.find(path)]?.change;
    if (!change || !this.set) return;
    const stamp = stampOf(change, this.set);
    try {
      const diff = parseDiff(await this.load(path, stamp, whole));
      const i = this.current(path, stamp);
      if (i < 0) return;
      this.patch(i, { loaded: { state: "ready", diff, whole } });
      this.color(path, diff, () => {
        this.paint++;
        this.publish();
      });
    } catch (error) {
      const i = this.current(path, stamp);
      if (i < 0) return;
      // A fold that could not be opened closes again; what was there stays.
      if (this.files[i]!.loaded.state === "ready") this.patch(i, { opened: new Map() });
      else this.patch(i, { loaded: { state: "error", error } });
    }
  }

  private find(path: string): number {
    return this.files.findIndex((f) => f.change.path === path);
  }

  /** Where the file is, if it is still in the state that was asked for. */
  private current(path: string, stamp: string): number {
    if (this.dead || !this.set) return -1;
    const i = this.find(path);
    return i >= 0 && stampOf(this.files[i]!.change, this.set) === stamp ? i : -1;
  }

  private patch(i: number, change: Partial<FileView>): void {
    this.files = this.files.slice();
    this.files[i] = { ...this.files[i]!, ...change };
    this.rowsOf[i] = undefined;
    this.publish();
  }

  private publish(): void {
    if (this.publishing) return;
    this.publishing = true;
    this.later(() => {
      this.publishing = false;
      if (this.dead) return;
      const rows: Row[] = [];
      const heads: number[] = [];
      this.files.forEach((f, i) => {
        const own = this.rowsOf[i] ?? fileRows(f, i, this.options);
        this.rowsOf[i] = own;
        heads.push(rows.length);
        for (const r of own) rows.push(r);
      });
      this.view.set({ files: this.files, rows, heads, options: this.options, set: this.set, paint: this.paint });
    });
  }
}

/** Names the state of a file: two states with the same stamp have the same diff. */
export function stampOf(c: Change, set: ChangeSet): string {
  // Without a hash (too large to be read) only the version of the whole set tells states apart.
  const content = c.hash || (c.status === "deleted" ? "gone" : `v${set.version}`);
  // Adding an untracked file to git does not change its lines.
  const status = c.status === "untracked" ? "added" : c.status;
  return [set.base_commit, status, c.old_path ?? "", c.old_mode, c.mode, c.size, content].join(":");
}

/** How many files of the newer set are in another state than in the one being read. */
export function newer(reading: ChangeSet, live: ChangeSet): Set<string> {
  const out = new Set<string>();
  const before = new Map(reading.items.map((c) => [c.path, stampOf(c, { ...reading, version: 0 })]));
  for (const c of live.items) {
    if (before.get(c.path) !== stampOf(c, { ...live, version: 0 })) out.add(c.path);
    before.delete(c.path);
  }
  for (const gone of before.keys()) out.add(gone);
  return out;
}
