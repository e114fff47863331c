import { CUT } from "./lines";
import { FIRST_SPECIAL, type FileRows, type FileView, rowKey, type Special } from "./rows";

/** Sizes in px of the classes in styles/diff.css. */
const LINE = 20;
const GUTTER = 46; // one column of numbers
const MARK = 20; // the + or - beside the text
const BEHIND = 12; // behind the text
const CHAR = 7.2; // 12 px JetBrains Mono

const HEIGHTS: Record<Exclude<Special["kind"], "note">, number> = {
  file: 38,
  gap: 28,
  slot: 120,
  picture: 320,
  end: 16,
};

/** Below this width in px, only one column of line numbers is shown. */
const NARROW = 560;

export const isNarrow = (width: number): boolean => width < NARROW;

/** How many columns of text fit. */
export function columns(width: number, split: boolean): number {
  const numbers = split || isNarrow(width) ? GUTTER : 2 * GUTTER;
  const text = (split ? width / 2 : width) - numbers - MARK - BEHIND;
  return Math.max(10, Math.floor(text / CHAR));
}

/**
 * Row positions of one file, from its top. Heights are computed, not measured: exact for plain text, approximate elsewhere,
 * where the page reports the real height after it draws a row.
 */
export class FileLayout {
  /** tops[i] is where row i begins; tops[n] is the height of all. */
  readonly tops: Float64Array;
  /** A line has one number beside it, not two. */
  readonly narrow: boolean;

  constructor(
    readonly rows: FileRows,
    file: FileView,
    width: number,
    readonly split: boolean,
    private readonly measured: Map<string, number>,
  ) {
    const n = rows.n;
    const cols = columns(width, split);
    this.narrow = !split && isNarrow(width);
    this.tops = new Float64Array(n + 1);
    const widths = file.loaded.state === "ready" ? file.loaded.patch.columns : undefined;
    const lines = (i: number) => (i < 0 || !widths ? 1 : Math.max(1, Math.ceil(Math.min(widths[i]!, CUT) / cols)));
    let y = 0;
    const some = measured.size > 0;
    for (let i = 0; i < n; i++) {
      this.tops[i] = y;
      const a = rows.a[i]!;
      const known = some ? measured.get(rowKey(rows, i)) : undefined;
      if (known !== undefined) y += known;
      else if (a <= FIRST_SPECIAL) y += special(rows.specials[FIRST_SPECIAL - a]!, file);
      else y += LINE * (split ? Math.max(lines(a), lines(rows.b[i]!)) : lines(a));
    }
    this.tops[n] = y;
  }

  get height(): number {
    return this.tops[this.rows.n]!;
  }

  /** Records measured row heights. Returns whether any changed. */
  measure(heights: Iterable<readonly [row: number, height: number]>): boolean {
    let news = false;
    for (const [i, h] of heights) {
      if (i >= this.rows.n || Math.abs(this.tops[i + 1]! - this.tops[i]! - h) < 0.5) continue;
      this.measured.set(rowKey(this.rows, i), h);
      news = true;
    }
    return news;
  }

  /** The row at a place. */
  at(y: number): number {
    return Math.min(this.rows.n - 1, below(this.tops, this.rows.n, y));
  }
}

function special(s: Special, f: FileView): number {
  if (s.kind !== "note") return HEIGHTS[s.kind];
  // A file that is not loaded yet takes about its final height, so the scroll bar does not jump.
  return s.note === "loading" ? Math.max(44, (f.file.additions + f.file.deletions + 8) * LINE) : 44;
}

/** The last of the first n tops that is not below y. */
export function below(tops: Float64Array, n: number, y: number): number {
  let low = 0;
  let high = n - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (tops[mid]! <= y) low = mid;
    else high = mid - 1;
  }
  return Math.max(0, low);
}
