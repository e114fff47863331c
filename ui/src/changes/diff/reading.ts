import { Store } from "@/state/store";
import { color } from "./color";
import { below, columns, FileLayout, isNarrow } from "./layout";
import { type FilePatch, findLine } from "./lines";
import { type Anchor, type FileView, fileRows, isFolded, oneSided, type RowOptions, STEP, showsPicture } from "./rows";
import type { Comparison, SideName } from "./types";

/** Source of a comparison's diffs. */
export interface Source {
  comparison: Comparison;
  ignoreSpace: boolean;
  /** Diffs of these files, or of all that are not folded; `whole` includes every line. The response may omit files. */
  load: (paths: readonly string[] | undefined, whole: boolean) => Promise<{ files: FilePatch[]; truncated: boolean }>;
}

/** What the page shows. A new object whenever something changed. */
export interface ReadingView {
  comparison: Comparison | undefined;
  files: readonly FileView[];
  layouts: readonly FileLayout[];
  /** Where each file begins, and the end of all. */
  tops: Float64Array;
  options: RowOptions;
}

/** At most this many requests for diffs at once. */
const AT_ONCE = 2;
/** Changes of at most this many lines are loaded with the first request. */
const ALL_AT_ONCE = 6_000;
/** How many changed lines one request asks for, and how many files. */
const BATCH = 3_000;
const BATCH_FILES = 60;
/** Above this many changed lines, files load only when they are near the viewport. */
const AHEAD = 20_000;

/**
 * The state of a displayed comparison: which files are loaded, folded, expanded and viewed, and where their rows are. It lives outside
 * React, so 5,000 files and late diffs cost one update each instead of rendering everything.
 */
export class Reading {
  readonly view = new Store<ReadingView>({
    comparison: undefined,
    files: [],
    layouts: [],
    tops: new Float64Array(1),
    options: { split: false, hunkHeads: false },
  });
  private source: Source | undefined;
  private files: FileView[] = [];
  private layouts: (FileLayout | undefined)[] = [];
  private options: RowOptions = { split: false, hunkHeads: false };
  private width = 800;
  private anchors: ReadonlyMap<string, readonly Anchor[]> = new Map();
  private readonly ids = new Map<string, number>();
  private index = new Map<string, number>();
  private readonly heights = new Map<number, Map<string, number>>();
  private readonly marks = new Map<string, boolean>();
  private queue: { path: string; whole: boolean }[] = [];
  private running = 0;
  private ahead = 0;
  private publishing = false;
  private dead = false;

  constructor(
    private readonly later: (run: () => void) => void = (run) => requestAnimationFrame(run),
    private readonly colors: typeof color = color,
  ) {}

  /** Prefetches only what a reading loads first. */
  static async first(source: Source): Promise<void> {
    const reading = new Reading(() => {});
    const asked: Promise<unknown>[] = [];
    const load: Source["load"] = (paths, whole) => {
      const got = source.load(paths, whole);
      asked.push(got);
      return got;
    };
    reading.show({ ...source, load });
    reading.dead = true; // nothing further is asked for
    await Promise.all(asked);
  }

  /** Starts or resumes. Returns a function that stops it and drops diffs in flight. */
  start(): () => void {
    this.dead = false;
    return () => {
      this.dead = true;
      this.queue = [];
    };
  }

  /** Shows another comparison. Files with the same change keep their diff, folds and position. */
  show(source: Source): void {
    const before = new Map(this.files.map((f, i) => [f.file.path, { f, layout: this.layouts[i] }]));
    const sameLines = this.source?.ignoreSpace === source.ignoreSpace;
    this.source = source;
    this.ahead = 0;
    this.queue = [];
    const layouts: (FileLayout | undefined)[] = [];
    this.index = new Map();
    this.files = source.comparison.files.map((file, i) => {
      this.index.set(file.path, i);
      const known = before.get(file.path);
      const viewed = this.marks.get(`${file.path}\n${file.mark}`) ?? file.viewed;
      if (known && sameLines && known.f.file.mark === file.mark && known.f.loaded.state !== "loading") {
        const f = { ...known.f, file, viewed };
        layouts.push(known.f.viewed === viewed && known.f.file.folded === file.folded ? known.layout : undefined);
        return f;
      }
      layouts.push(undefined);
      const folded = known?.f.folded;
      const opened = known?.f.file.mark === file.mark ? known.f.opened : new Map();
      return { id: this.idOf(file.path), file, loaded: { state: "none" }, folded, opened, viewed };
    });
    this.layouts = layouts;
    this.first();
    this.publish();
  }

  private idOf(path: string): number {
    const id = this.ids.get(path) ?? this.ids.size;
    this.ids.set(path, id);
    return id;
  }

  indexOf(path: string): number {
    return this.index.get(path) ?? -1;
  }

  setOptions(options: Partial<RowOptions>): void {
    const next = { ...this.options, ...options };
    if (next.split === this.options.split && next.hunkHeads === this.options.hunkHeads) return;
    if (next.split !== this.options.split) this.forgetHeights();
    this.options = next;
    this.layouts = this.files.map(() => undefined);
    this.publish();
  }

  setWidth(width: number): void {
    if (width === this.width) return;
    const { split } = this.options;
    const same = columns(width, split) === columns(this.width, split) && isNarrow(width) === isNarrow(this.width);
    this.width = width;
    if (same) return;
    this.forgetHeights();
    this.layouts = this.files.map(() => undefined);
    this.publishNow();
  }

  /** Widgets of extensions below lines, by path. */
  setAnchors(anchors: ReadonlyMap<string, readonly Anchor[]>): void {
    const old = this.anchors;
    this.anchors = anchors;
    for (const path of new Set([...old.keys(), ...anchors.keys()])) {
      const a = old.get(path) ?? [];
      const b = anchors.get(path) ?? [];
      const same = a.length === b.length && a.every((x, i) => same1(x, b[i]!));
      const i = this.indexOf(path);
      if (!same && i >= 0) this.layouts[i] = undefined;
    }
    this.publish();
  }

  /** Records measured row heights per file. Returns whether anything moved. */
  measure(drawn: ReadonlyMap<number, readonly (readonly [number, number])[]>): boolean {
    let news = false;
    for (const [i, heights] of drawn) {
      if (this.layouts[i]?.measure(heights)) {
        this.layouts[i] = undefined;
        news = true;
      }
    }
    if (news) this.publishNow();
    return news;
  }

  private forgetHeights(): void {
    for (const of of this.heights.values()) for (const key of of.keys()) if (!key.startsWith("s")) of.delete(key);
  }

  /** Loads and highlights the files on screen if needed. The latest request goes first. */
  need(from: number, to: number): void {
    for (let i = Math.min(to, this.files.length - 1); i >= Math.max(0, from); i--) {
      const f = this.files[i]!;
      if (f.loaded.state === "none") this.ask(i);
      else if (f.loaded.state === "ready") this.colour(f);
    }
    this.pump();
  }

  private ask(i: number, last = false): void {
    const f = this.files[i];
    if (f?.loaded.state !== "none" || isFolded(f) || f.file.binary || showsPicture(f.file)) return;
    this.patch(i, { loaded: { state: "loading" } });
    const ask = { path: f.file.path, whole: false };
    if (last) this.queue.push(ask);
    else this.queue.unshift(ask);
  }

  /** Loads initially: everything if it is small, else the first files. */
  private first(): void {
    let lines = 0;
    let open = 0;
    for (const f of this.files) {
      if (isFolded(f) || f.file.binary || f.loaded.state !== "none") continue;
      lines += f.file.additions + f.file.deletions;
      open++;
    }
    if (open > 1 && lines <= ALL_AT_ONCE && open < 500) {
      this.files.forEach((f, i) => {
        if (f.loaded.state === "none" && !isFolded(f) && !f.file.binary) {
          this.files[i] = { ...f, loaded: { state: "loading" } };
          this.layouts[i] = undefined;
        }
      });
      const open1 = this.files.filter((f) => f.loaded.state === "loading").map((f) => f.file.path);
      void this.fetch(open1.length === this.files.length ? undefined : open1, false);
      return;
    }
    this.more();
  }

  /** Continues loading from the top while the total is still small. */
  private more(): void {
    if (this.ahead >= AHEAD || this.queue.length > 0) return;
    let batch = 0;
    for (let i = 0; i < this.files.length && batch < BATCH && this.ahead < AHEAD; i++) {
      const f = this.files[i]!;
      if (f.loaded.state !== "none" || isFolded(f) || f.file.binary) continue;
      const lines = f.file.additions + f.file.deletions + 8;
      batch += lines;
      this.ahead += lines;
      this.ask(i, true);
    }
    if (batch > 0) this.pump();
  }

  retry(i: number): void {
    this.patch(i, { loaded: { state: "none" } });
    this.need(i, i);
  }

  toggleFold(i: number): void {
    const f = this.files[i];
    if (!f) return;
    this.patch(i, { folded: !isFolded(f) });
    this.need(i, i);
  }

  unfold(i: number): void {
    const f = this.files[i];
    if (f && isFolded(f)) this.toggleFold(i);
  }

  /** Marks a file as viewed in its current state and folds it, or removes the mark. */
  setViewed(path: string, viewed: boolean): void {
    const i = this.indexOf(path);
    const f = this.files[i];
    if (!f) return;
    this.marks.set(`${path}\n${f.file.mark}`, viewed);
    this.patch(i, { viewed, folded: undefined });
    this.need(i, i);
  }

  /** Expands a fold: some lines from its top or bottom, or all. */
  open(i: number, at: number, how: "top" | "bottom" | "all"): void {
    const f = this.files[i];
    if (!f) return;
    const opened = new Map(f.opened);
    const now = opened.get(at) ?? { top: 0, bottom: 0 };
    if (how === "all") opened.set(at, { top: Number.MAX_SAFE_INTEGER, bottom: 0 });
    else opened.set(at, { ...now, [how]: now[how] + STEP });
    this.patch(i, { opened });
    this.needWhole(i);
  }

  /** Shows every line of a file. */
  openAll(i: number): void {
    const layout = this.layouts[i] ?? this.layout(i);
    const opened = new Map(this.files[i]!.opened);
    for (const s of layout.rows.specials)
      if (s.kind === "gap") opened.set(s.at, { top: Number.MAX_SAFE_INTEGER, bottom: 0 });
    this.patch(i, { opened });
    this.needWhole(i);
  }

  /** Opens the fold a line is in. The whole file must be there. */
  openAround(i: number, side: SideName, line: number): void {
    const f = this.files[i];
    if (f?.loaded.state !== "ready") return;
    const { patch } = f.loaded;
    const index = findLine(patch, side, line);
    const layout = this.layouts[i] ?? this.layout(i);
    let at: number | undefined;
    for (const s of layout.rows.specials) {
      if (s.kind === "gap" && s.count > 0 && patch.old[index]! >= s.at) at = s.at;
    }
    if (index >= 0 && at !== undefined) this.open(i, at, "all");
  }

  /** The diff as it came has a few lines around each change: the rest needs the whole file. */
  needWhole(i: number): void {
    const f = this.files[i];
    if (f?.loaded.state !== "ready" || f.loaded.whole || oneSided(f.file)) return;
    if (this.queue.some((q) => q.path === f.file.path)) return;
    this.queue.unshift({ path: f.file.path, whole: true });
    this.pump();
  }

  private pump(): void {
    while (this.running < AT_ONCE && this.queue.length > 0) {
      const batch: string[] = [];
      let lines = 0;
      const whole = this.queue[0]!.whole;
      while (this.queue.length > 0 && batch.length < BATCH_FILES && lines < BATCH && this.queue[0]!.whole === whole) {
        const { path } = this.queue.shift()!;
        const f = this.files[this.indexOf(path)];
        if (!f) continue;
        batch.push(path);
        lines += whole ? BATCH : f.file.additions + f.file.deletions + 8;
      }
      if (batch.length > 0) void this.fetch(batch, whole);
    }
    if (this.running === 0 && this.queue.length === 0) this.more();
  }

  private async fetch(paths: readonly string[] | undefined, whole: boolean): Promise<void> {
    const source = this.source!;
    this.running++;
    try {
      const { files, truncated } = await source.load(paths, whole);
      if (this.stale(source)) return;
      const found = new Map(files.map((p) => [p.path, p]));
      const asked = paths ?? source.comparison.files.map((f) => f.path);
      for (const path of asked) {
        const patch = found.get(path);
        const f = this.files[this.indexOf(path)];
        if (!f) continue;
        if (patch) this.arrived(f, patch, whole);
        else if (f.loaded.state === "loading") {
          // If omitted for its size, request it separately; otherwise no lines differ.
          if (truncated && asked.length > 1) this.patch(this.indexOf(path), { loaded: { state: "none" } });
          else this.arrived(f, nothing(path), true);
        }
      }
    } catch (error) {
      if (this.stale(source)) return;
      for (const f of this.files) {
        if (paths && !paths.includes(f.file.path)) continue;
        // A fold that could not be opened closes again; what was there stays.
        if (f.loaded.state === "ready") this.patch(this.indexOf(f.file.path), { opened: new Map() });
        else if (f.loaded.state === "loading")
          this.patch(this.indexOf(f.file.path), { loaded: { state: "error", error } });
      }
    } finally {
      this.running--;
      if (!this.dead) this.pump();
    }
  }

  private stale(source: Source): boolean {
    return this.dead || this.source !== source;
  }

  private arrived(f: FileView, patch: FilePatch, whole: boolean): void {
    const hunks = whole && f.loaded.state === "ready" ? f.loaded.hunks : patch.hunks;
    const i = this.indexOf(f.file.path);
    this.patch(i, { loaded: { state: "ready", patch, hunks, whole } });
    if (this.anchors.has(f.file.path)) {
      const layout = this.layout(i);
      this.layouts[i] = layout;
      if (layout.rows.wantsWhole) this.needWhole(i);
    }
  }

  private colour(f: FileView): void {
    if (f.loaded.state !== "ready") return;
    this.colors(f.file.path, f.loaded.patch, () => this.publish());
  }

  private patch(i: number, change: Partial<FileView>): void {
    const f = this.files[i];
    if (!f) return;
    this.files = this.files.slice();
    this.files[i] = { ...f, ...change };
    this.layouts[i] = undefined;
    this.publish();
  }

  private layout(i: number): FileLayout {
    const f = this.files[i]!;
    let heights = this.heights.get(f.id);
    if (!heights) {
      heights = new Map();
      this.heights.set(f.id, heights);
    }
    const rows = fileRows(f, this.options, this.anchors.get(f.file.path));
    return new FileLayout(rows, f, this.width, this.options.split, heights);
  }

  private publish(): void {
    if (this.publishing) return;
    this.publishing = true;
    this.later(() => {
      const wanted = this.publishing;
      this.publishing = false; // before: what is asked for meanwhile comes next
      if (wanted && !this.dead) this.publishNow();
    });
  }

  private publishNow(): void {
    this.publishing = false;
    const tops = new Float64Array(this.files.length + 1);
    let y = 0;
    for (let i = 0; i < this.files.length; i++) {
      const own = this.layouts[i] ?? this.layout(i);
      this.layouts[i] = own;
      tops[i] = y;
      y += own.height;
    }
    tops[this.files.length] = y;
    this.view.set({
      comparison: this.source?.comparison,
      files: this.files,
      layouts: this.layouts.slice() as FileLayout[],
      tops,
      options: this.options,
    });
  }
}

const same1 = (a: Anchor, b: Anchor): boolean => a.key === b.key && a.side === b.side && a.line === b.line;

function nothing(path: string): FilePatch {
  const none = new Uint32Array(0);
  return {
    path,
    bytes: new Uint8Array(0),
    start: none,
    end: none,
    kind: new Uint8Array(0),
    old: none,
    new: none,
    columns: new Uint16Array(0),
    pair: new Int32Array(0),
    hunks: [],
    binary: false,
    oldMode: "",
    newMode: "",
    latin: false,
  };
}

/** The file and row at a place of the page. */
export function rowAt(view: ReadingView, y: number): { file: number; row: number } {
  const file = below(view.tops, view.files.length, y);
  const layout = view.layouts[file];
  return { file, row: layout ? layout.at(y - view.tops[file]!) : 0 };
}
