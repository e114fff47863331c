import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

/** Rows drawn beyond what is on screen. */
const BEYOND = 12;

interface Window {
  scroller: RefObject<HTMLDivElement | null>;
  /** Looks again at what is on screen: for onScroll. */
  look: () => void;
  /** The first row that is drawn, and how many are. */
  box: { first: number; count: number };
  /** Brings a row into sight. */
  scrollTo: (row: number) => void;
}

/** Which of the rows of a long list, all of one height in pixels, are drawn. */
export function useWindow(rowHeight: number): Window {
  const scroller = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState({ first: 0, count: 60 });
  const look = useCallback(() => {
    const el = scroller.current;
    if (!el) return;
    // Whole dozens: a few rows more or less are no reason to draw.
    const first = Math.max(0, Math.floor(el.scrollTop / rowHeight / BEYOND) * BEYOND - BEYOND);
    const count = Math.ceil(el.clientHeight / rowHeight) + 3 * BEYOND;
    setBox((old) => (old.first === first && old.count === count ? old : { first, count }));
  }, [rowHeight]);
  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    look();
    const observer = new ResizeObserver(look);
    observer.observe(el);
    return () => observer.disconnect();
  }, [look]);
  const scrollTo = useCallback(
    (i: number) => {
      const el = scroller.current;
      if (!el) return;
      const y = i * rowHeight;
      if (y < el.scrollTop) el.scrollTop = y;
      else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight - el.clientHeight;
      look();
    },
    [rowHeight, look],
  );
  return { scroller, look, box, scrollTo };
}
