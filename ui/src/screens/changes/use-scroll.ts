import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { type Reading, type ReadingView, rowAt } from "@/diff/reading";
import { rowKey } from "@/diff/rows";
import { heightOf, type Place, type Stretch, topOf } from "@/diff/walk";

/** How far one may scroll before other rows are drawn, in px. */
const STEP = 160;

/**
 * Scrolling of a list whose rows change their heights: what the reader looks at stays where it is while files come in above it, and
 * a place that was gone to stays at its place until the reader moves.
 */
export function useScroll(reading: Reading, view: ReadingView, within: Stretch) {
  const scroller = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState({ top: 0, exact: 0, height: 800 });
  // The row at the top, and how far it is scrolled; or the row that was gone to, and where it stands.
  const anchor = useRef<{ path: string; key: string; row: number; dy: number }>(undefined);
  const pinned = useRef(false);
  // Where this scrolled to itself: who finds it elsewhere knows that somebody else did.
  const own = useRef(0);
  const base = view.tops[within.from] ?? 0;
  const latest = useRef({ view, base, within });

  const hold = useCallback((p: Place, dy: number) => {
    const { view: v } = latest.current;
    const path = v.files[p.file]?.file.path;
    if (path !== undefined) anchor.current = { path, key: rowKey(v.layouts[p.file]!.rows, p.row), row: p.row, dy };
  }, []);

  const look = useCallback(() => {
    const el = scroller.current;
    if (!el) return;
    const exact = el.scrollTop;
    const { view: v, base: b, within: w } = latest.current;
    if (!pinned.current && w.to > w.from) {
      const p = rowAt(v, b + exact);
      hold(p, exact - (topOf(v, p) - b));
    }
    setBox((old) => {
      const top = Math.floor(exact / STEP) * STEP;
      const height = el.clientHeight + STEP;
      // The exact place matters for the head that floats and the row in hand only: those change with rows.
      const row = rowAt(v, b + exact + 1);
      const was = rowAt(v, b + old.exact + 1);
      if (old.top === top && old.height === height && row.file === was.file && row.row === was.row) return old;
      return { top, exact, height };
    });
  }, [hold]);

  useLayoutEffect(() => {
    latest.current = { view, base, within };
    const el = scroller.current;
    const a = anchor.current;
    if (el && a) {
      const file = view.files.findIndex((f) => f.file.path === a.path);
      if (file >= within.from && file < within.to) {
        const layout = view.layouts[file]!;
        const row = find(view, file, a.key, a.row);
        const wish =
          row >= 0 ? topOf(view, { file, row }) : view.tops[file]! + Math.min(a.row ? layout.height - 1 : 0, 40);
        const top = wish - base + (row >= 0 ? a.dy : 0);
        if (Math.abs(el.scrollTop - top) > 0.5) {
          el.scrollTop = top;
          own.current = el.scrollTop;
        }
      }
    }
    look();
  }, [view, base, within, look]);

  // Another file on a phone begins at its top.
  const alone = within.to - within.from === 1 ? within.from : -1;
  const was = useRef(alone);
  useLayoutEffect(() => {
    if (was.current === alone) return;
    was.current = alone;
    anchor.current = undefined;
    pinned.current = false;
    if (scroller.current) scroller.current.scrollTop = 0;
    look();
  }, [alone, look]);

  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const observer = new ResizeObserver(() => {
      reading.setWidth(el.clientWidth);
      look();
    });
    observer.observe(el);
    const onScroll = () => {
      // The focus, a search of the browser's or a reading aid may scroll as well.
      if (Math.abs(el.scrollTop - own.current) > 1) pinned.current = false;
      look();
    };
    el.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      el.removeEventListener("scroll", onScroll);
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
      el.scrollTop = Math.max(0, top);
      own.current = el.scrollTop;
      look();
    },
    [hold, look],
  );

  /** The reader moves: nothing is held any more but what is at the top. */
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
