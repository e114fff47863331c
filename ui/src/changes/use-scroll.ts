import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { type Reading, type ReadingView, rowAt } from "./diff/reading";
import { rowKey } from "./diff/rows";
import { type FileRange, heightOf, type Place, topOf } from "./diff/walk";

/** How far one may scroll before other rows are drawn, in px. */
const STEP = 160;

/** After this many ms without scrolling, the user is reading. */
const CALM = 120;

/**
 * Scrolling of a list whose rows change height: the visible rows stay in place while files load above them, and
 * a scroll target keeps its position until the user scrolls. Scroll position and height are remembered rather
 * than read, because reading them would force a layout for every drawn row.
 */
export function useScroll(reading: Reading, view: ReadingView, within: FileRange) {
  const scroller = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  // fast: scrolling by more than a screen at a time.
  const [box, setBox] = useState({ top: 0, exact: 0, height: 800, fast: false });
  const at = useRef({ top: 0, height: 0 });
  const calm = useRef<number>(undefined);
  // The anchor: the top row and its scroll offset, or the scroll target and its position.
  const anchor = useRef<{ path: string; key: string; row: number; dy: number }>(undefined);
  const pinned = useRef(false);
  // The position this code scrolled to: any other position means that the user scrolled.
  const own = useRef(0);
  const base = view.tops[within.from] ?? 0;
  const latest = useRef({ view, base, within });

  const hold = useCallback((p: Place, dy: number) => {
    const { view: v } = latest.current;
    const path = v.files[p.file]?.file.path;
    if (path !== undefined) anchor.current = { path, key: rowKey(v.layouts[p.file]!.rows, p.row), row: p.row, dy };
  }, []);

  const look = useCallback(() => {
    const exact = at.current.top;
    const { view: v, base: b, within: w } = latest.current;
    if (!pinned.current && w.to > w.from) {
      const p = rowAt(v, b + exact);
      hold(p, exact - (topOf(v, p) - b));
    }
    setBox((old) => {
      const top = Math.floor(exact / STEP) * STEP;
      const height = at.current.height + STEP;
      // The exact position matters only for the sticky head and the current row, which change by row.
      const row = rowAt(v, b + exact + 1);
      const was = rowAt(v, b + old.exact + 1);
      const fast = calm.current !== undefined;
      if (old.top === top && old.height === height && old.fast === fast && row.file === was.file && row.row === was.row)
        return old;
      return { top, exact, height, fast };
    });
  }, [hold]);

  /** Where it is scrolled to now. */
  const put = useCallback((top: number) => {
    const el = scroller.current;
    if (!el) return;
    el.scrollTop = top;
    at.current.top = own.current = el.scrollTop;
  }, []);

  useLayoutEffect(() => {
    latest.current = { view, base, within };
    const el = scroller.current;
    if (el && at.current.height === 0) at.current.height = el.clientHeight;
    const a = anchor.current;
    if (el && a) {
      const file = view.files.findIndex((f) => f.file.path === a.path);
      if (file >= within.from && file < within.to) {
        const layout = view.layouts[file]!;
        const row = find(view, file, a.key, a.row);
        const wish =
          row >= 0 ? topOf(view, { file, row }) : view.tops[file]! + Math.min(a.row ? layout.height - 1 : 0, 40);
        const top = wish - base + (row >= 0 ? a.dy : 0);
        // The user may have scrolled since the last event: compensate for the shift without undoing the scroll.
        const by = top - at.current.top;
        if (Math.abs(by) > 0.5) put(el.scrollTop + by);
      }
    }
    look();
  }, [view, base, within, look, put]);

  // Another file on a phone begins at its top.
  const alone = within.to - within.from === 1 ? within.from : -1;
  const was = useRef(alone);
  useLayoutEffect(() => {
    if (was.current === alone) return;
    was.current = alone;
    anchor.current = undefined;
    pinned.current = false;
    put(0);
    look();
  }, [alone, look, put]);

  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const observer = new ResizeObserver(() => {
      at.current.height = el.clientHeight;
      reading.setWidth(el.clientWidth);
      look();
    });
    observer.observe(el);
    const onScroll = () => {
      // The focus, a search of the browser's or a reading aid may scroll as well.
      const top = el.scrollTop;
      if (Math.abs(top - own.current) > 1) {
        pinned.current = false;
        if (Math.abs(top - at.current.top) > at.current.height) {
          clearTimeout(calm.current);
          calm.current = window.setTimeout(() => {
            calm.current = undefined;
            look();
          }, CALM);
        }
      }
      at.current.top = top;
      look();
    };
    el.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      el.removeEventListener("scroll", onScroll);
      clearTimeout(calm.current);
      calm.current = undefined;
    };
  }, [reading, look]);

  // Rows are not all as high as was worked out: what was drawn says how high it is, before it is painted.
  const measure = useCallback(() => {
    const drawn = new Map<number, [number, number][]>();
    for (const el of body.current?.children ?? []) {
      if (!(el instanceof HTMLElement)) continue;
      const file = Number(el.dataset.file);
      const of = drawn.get(file) ?? [];
      of.push([Number(el.dataset.row), el.offsetHeight]);
      drawn.set(file, of);
    }
    reading.measure(drawn);
  }, [reading]);
  useLayoutEffect(measure);
  useEffect(() => {
    const el = body.current;
    if (!el) return;
    const observer = new ResizeObserver(measure); // what stands below a line grows while somebody types
    observer.observe(el);
    return () => observer.disconnect();
  }, [measure]);

  const scrollTo = useCallback(
    (p: Place, align: "start" | "center" | "nearest") => {
      const el = scroller.current;
      if (!el) return;
      const { view: v, base: b } = latest.current;
      const y = topOf(v, p) - b;
      const height = heightOf(v, p);
      const room = el.clientHeight;
      let top = y;
      if (align === "center") top = y - Math.max(HEAD, (room - height) / 2.5);
      else if (align === "nearest") {
        if (y - HEAD >= el.scrollTop && y + height <= el.scrollTop + room) return;
        top = y - HEAD < el.scrollTop ? y - HEAD : y + height - room;
      }
      pinned.current = true;
      hold(p, top - y);
      put(Math.max(0, top));
      look();
    },
    [hold, look, put],
  );

  /** The user scrolls: anchor to the top row again. */
  const moved = useCallback(() => {
    pinned.current = false;
    look(); // what is held from now on is what is on screen
  }, [look]);

  return { scroller, body, box, scrollTo, moved };
}

/** The head of a file that floats over the first lines, in px. */
const HEAD = 38;

function find(v: ReadingView, file: number, key: string, guess: number): number {
  const { rows } = v.layouts[file]!;
  if (guess < rows.n && rowKey(rows, guess) === key) return guess;
  for (let i = 0; i < rows.n; i++) if (rowKey(rows, i) === key) return i;
  return -1;
}
