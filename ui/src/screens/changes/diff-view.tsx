import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type Ref,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { findRows } from "@/diff/find";
import { rowHeight } from "@/diff/measure";
import type { ReviewView } from "@/diff/review";
import type { Row } from "@/diff/rows";
import { useAction } from "@/keys/keyboard";
import { isBoolean, recall } from "@/state/remember";
import { FileHead } from "./file-head";
import { DiffRow } from "./row";
import type { useReview } from "./use-review";

export interface DiffViewHandle {
  showFile: (path: string) => void;
  find: (text: string) => { at: number; of: number };
  findNext: (by: 1 | -1) => { at: number; of: number };
  focus: () => void;
}

interface Props {
  ref: Ref<DiffViewHandle>;
  reading: ReturnType<typeof useReview>;
  view: ReviewView;
  /** The file to begin with. */
  start: string | undefined;
  /** Shows this file alone. */
  only: string | undefined;
  onFile: (index: number) => void;
}

/** The lines of all files in one long list, of which only what is on screen exists. */
export function DiffView({ ref, reading, view, start, only, onFile }: Props) {
  const { review, hold, mark } = reading;
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [cursor, setCursor] = useState(-1);
  const [found, setFound] = useState<{ text: string; rows: number[]; at: number }>({ text: "", rows: [], at: -1 });
  const { split } = view.options;

  // A phone shows one file; its rows are a stretch of all.
  const [from, rows] = useMemo(() => stretch(view, only), [view, only]);

  useLayoutEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const observer = new ResizeObserver(() => setWidth(el.clientWidth));
    observer.observe(el);
    return () => observer.disconnect();
  }, []);

  const first = useRef(true);
  useEffect(() => {
    if (!first.current) return;
    first.current = false;
    const wantsSplit = recall("diff.split", isBoolean) ?? false;
    if (wantsSplit !== split && !only) review.setOptions({ split: wantsSplit, whitespace: true });
    if (only && split) review.setOptions({ split: false, whitespace: true });
  });

  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => rowHeight(rows[i]!, width, split),
    getItemKey: (i) => rows[i]?.key ?? i,
    overscan: 20,
  });
  useEffect(() => {
    void width; // wrapped lines change their height with the width
    virtual.measure();
  }, [virtual, width]);

  const items = virtual.getVirtualItems();
  const top = items.find((i) => i.end > (virtual.scrollOffset ?? 0) + 1);
  const topFile = rows[top?.index ?? 0]?.file ?? 0;
  useEffect(() => onFile(topFile), [topFile, onFile]);

  // Load what is on screen and what comes next.
  const span = items.length > 0 ? [rows[items[0]!.index]?.file ?? 0, rows[items.at(-1)!.index]?.file ?? 0] : [0, -1];
  const missing = view.files
    .slice(span[0], Math.min(span[0]! + 40, span[1]! + 2))
    .map((f, k) => (f.loaded.state === "none" ? span[0]! + k : -1))
    .filter((i) => i >= 0)
    .join(",");
  useEffect(() => {
    if (missing) review.need(missing.split(",").map(Number));
  }, [review, missing]);

  // Diffs that load meanwhile push a chosen file away: it is brought back until the reader moves.
  const anchor = useRef<string | undefined>(undefined);

  const go = useCallback(
    (index: number, align: "start" | "center" = "start") => {
      if (index < 0) return;
      anchor.current = undefined;
      hold();
      setCursor(index);
      virtual.scrollToIndex(index, { align });
      scroller.current?.focus({ preventScroll: true });
    },
    [virtual, hold],
  );

  const showFile = useCallback(
    (path: string) => {
      const i = view.files.findIndex((f) => f.change.path === path);
      if (i < 0) return;
      const row = (view.heads[i] ?? 0) - from;
      anchor.current = path;
      setCursor(row);
      virtual.scrollToIndex(row, { align: "start" });
    },
    [view, virtual, from],
  );
  const total = virtual.getTotalSize();
  useEffect(() => {
    void total;
    if (anchor.current) showFile(anchor.current);
  }, [total, showFile]);
  const moved = () => {
    anchor.current = undefined;
    hold();
  };

  // An address that names a file opens there, once its place is known.
  const opened = useRef(false);
  useEffect(() => {
    if (opened.current || rows.length === 0 || !start) return;
    opened.current = true;
    if (!only) showFile(start);
    else review.unfold(view.files.findIndex((f) => f.change.path === start));
  }, [rows.length, start, only, showFile, review, view.files]);

  // The line in hand, as long as it is on screen; else the first one that is.
  const inView = items.some((i) => i.index === cursor && i.end > (virtual.scrollOffset ?? 0));
  const here = inView ? cursor : (top?.index ?? 0);
  const fileHere = rows[here]?.file ?? 0;
  const changeStart = (i: number) => isChangeStart(rows, i);
  const nextWhere = (by: 1 | -1, test: (i: number) => boolean) => {
    for (let i = here + by; i >= 0 && i < rows.length; i += by) if (test(i)) return i;
    return -1;
  };
  useAction("diff.nextHunk", () =>
    go(here !== cursor && changeStart(here) ? here : nextWhere(1, changeStart), "center"),
  );
  useAction("diff.previousHunk", () => go(nextWhere(-1, changeStart), "center"));
  useAction("diff.nextFile", () => go(nextWhere(1, (i) => rows[i]?.kind === "file")));
  useAction("diff.previousFile", () => {
    const head = (view.heads[fileHere] ?? 0) - from;
    go(here > head ? head : nextWhere(-1, (i) => rows[i]?.kind === "file"));
  });
  // What folds keeps its head where the reader looks.
  const keep = (file: number) => {
    const head = (view.heads[file] ?? 0) - from;
    setCursor(head);
    const start = virtual.measurementsCache[head]?.start ?? 0;
    if (start < (virtual.scrollOffset ?? 0)) anchor.current = view.files[file]?.change.path;
  };
  const toggleFold = (file: number) => {
    keep(file);
    review.toggleFold(file);
  };
  const toggleViewed = (file: number) => {
    hold();
    keep(file);
    mark(review.toggleViewed(file));
  };
  useAction("diff.fold", () => toggleFold(fileHere));
  useAction("diff.viewed", () => toggleViewed(fileHere));

  const latest = useRef({ rows, view });
  useEffect(() => {
    latest.current = { rows, view };
  });
  useImperativeHandle(
    ref,
    () => ({
      showFile,
      focus: () => scroller.current?.focus({ preventScroll: true }),
      find: (text) => {
        const hits = findRows(latest.current.rows, text, (f) => latest.current.view.files[f]?.change.path ?? "");
        setFound({ text, rows: hits, at: hits.length > 0 ? 0 : -1 });
        if (hits[0] !== undefined) {
          hold();
          virtual.scrollToIndex(hits[0], { align: "center" });
        }
        return { at: hits.length > 0 ? 1 : 0, of: hits.length };
      },
      findNext: (by) => {
        if (found.rows.length === 0) return { at: 0, of: 0 };
        const at = (found.at + by + found.rows.length) % found.rows.length;
        setFound({ ...found, at });
        virtual.scrollToIndex(found.rows[at]!, { align: "center" });
        return { at: at + 1, of: found.rows.length };
      },
    }),
    [showFile, virtual, hold, found],
  );

  const stuck = view.files[topFile];
  const headGone = top !== undefined && rows[top.index]?.kind !== "file";
  return (
    <div className="diff-frame relative min-h-0 flex-1 bg-bg0">
      {stuck && headGone && (
        <div className="absolute inset-x-0 top-0 z-10 border-b border-hairline bg-bg2 shadow-[0_1px_0_var(--hairline)]">
          <FileHead file={stuck} onFold={() => toggleFold(topFile)} onViewed={() => toggleViewed(topFile)} floating />
        </div>
      )}
      <div
        ref={scroller}
        role="region"
        aria-label="Diff"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        onWheel={moved}
        onTouchMove={moved}
        onPointerDown={moved}
        onKeyDown={(e) => SCROLL_KEYS.has(e.key) && moved()}
        className="diff h-full overflow-x-hidden overflow-y-auto"
      >
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index]!;
            return (
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className="absolute inset-x-0 top-0"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <DiffRow
                  row={row}
                  file={view.files[row.file]!}
                  review={review}
                  paint={view.paint}
                  find={found.text}
                  current={item.index === found.rows[found.at] || (item.index === cursor && row.kind !== "file")}
                  onViewed={() => toggleViewed(row.file)}
                />
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

const SCROLL_KEYS = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "]);

function stretch(view: ReviewView, only: string | undefined): [from: number, rows: readonly Row[]] {
  if (only === undefined) return [0, view.rows];
  const i = view.files.findIndex((f) => f.change.path === only);
  if (i < 0) return [0, []];
  const from = view.heads[i] ?? 0;
  return [from, view.rows.slice(from, view.heads[i + 1])];
}

/** Whether a stretch of changed lines begins at this row. */
function isChangeStart(rows: readonly Row[], i: number): boolean {
  const row = rows[i];
  if (!row || (row.kind !== "line" && row.kind !== "pair") || row.change === 0) return false;
  const before = rows[i - 1];
  return (
    !before ||
    (before.kind !== "line" && before.kind !== "pair") ||
    before.change !== row.change ||
    before.file !== row.file
  );
}
