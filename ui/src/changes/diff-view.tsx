import { t } from "@lingui/core/macro";
import {
  type PointerEvent,
  type Ref,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { toast } from "@/state/toasts";
import { isColored } from "./diff/color";
import { findLine } from "./diff/lines";
import { type Reading, type ReadingView, rowAt } from "./diff/reading";
import { rowKey } from "./diff/rows";
import type { LineRange, SideName } from "./diff/types";
import { heightOf, isHead, isLine, isStop, type Place, placeOf, rangeAt, topOf, walk } from "./diff/walk";
import { DiffRow } from "./diff-row";
import { FileHead } from "./file-head";
import type { Merged } from "./merged";
import { useChoosing } from "./use-choosing";
import { useScroll } from "./use-scroll";

export interface DiffViewHandle {
  show: (path: string, line?: { side: SideName; line: number }) => void;
  /** The current line. */
  inHand: () => LineRange | undefined;
  focus: () => void;
}

interface Props {
  ref: Ref<DiffViewHandle>;
  reading: Reading;
  view: ReadingView;
  added: Merged;
  ignoreSpace: boolean;
  /** Shows this file alone. */
  only: string | undefined;
  find: string;
  hit: LineRange | undefined;
  chosen: LineRange | undefined;
  onChoose: (range: LineRange | undefined) => void;
  onViewed: (file: number) => void;
  onFile: (path: string | undefined) => void;
  /** The user started reading: lines stay where they are from now on. */
  hold: () => void;
}

/** Overscan in px; not used while scrolling by more than a screen at a time. */
const BEYOND = 400;
const PASSING = 40;

/** Of files that only go by some are asked for, once in so many ms. */
const GLANCE = 150;

/** The lines of all files in one long list, of which only what is near the screen exists. */
export function DiffView(props: Props) {
  const { ref, reading, view, added, only, chosen, hold, onFile } = props;
  const within = useMemo(() => {
    if (only === undefined) return { from: 0, to: view.files.length };
    const i = view.files.findIndex((f) => f.file.path === only);
    return { from: Math.max(0, i), to: i + 1 };
  }, [view.files, only]);
  const { scroller, body, box, scrollTo, moved } = useScroll(reading, view, within);
  const [hand, setHand] = useState<{ path: string; key: string; side: SideName }>();

  const base = view.tops[within.from] ?? 0;
  const height = (view.tops[within.to] ?? 0) - base;
  const beyond = box.fast ? PASSING : BEYOND;
  const rows: Place[] = [];
  if (within.to > within.from) {
    const first = rowAt(view, base + Math.max(0, box.top - beyond));
    const end = Math.min(base + box.top + box.height + beyond, base + height);
    let p: Place | undefined = first;
    while (p && topOf(view, p) < end) {
      rows.push(p);
      p = walk(view, within, p, 1, any);
    }
  }
  const from = rows[0]?.file ?? 0;
  const to = rows.at(-1)?.file ?? -1;
  // A file further on is asked for before it is reached.
  const { files } = view;
  const asked = useRef(0);
  useEffect(() => {
    if (files.length === 0 || (box.fast && performance.now() - asked.current < GLANCE)) return;
    asked.current = performance.now();
    reading.need(from, Math.min(to + 1, within.to - 1));
  }, [reading, files, from, to, within, box.fast]);

  const top = within.to > within.from ? rowAt(view, base + box.exact + 1) : undefined;
  const topPath = top && view.files[top.file]?.file.path;
  useEffect(() => {
    if (!box.fast) onFile(topPath);
  }, [topPath, onFile, box.fast]);

  // The current row if it is near the viewport, else the first visible one.
  const handAt = rows.find(
    (p) =>
      hand && view.files[p.file]?.file.path === hand.path && rowKey(view.layouts[p.file]!.rows, p.row) === hand.key,
  );
  const onScreen = (p: Place) => {
    const y = topOf(view, p) - base;
    return y + heightOf(view, p) > box.exact && y < box.exact + box.height;
  };
  const taken = handAt && onScreen(handAt) ? handAt : undefined;
  const here = taken ?? top;

  const take = useCallback(
    (p: Place, side: SideName = "new") => {
      const path = view.files[p.file]?.file.path;
      const layout = view.layouts[p.file];
      if (path === undefined || !layout) return;
      setHand({ path, key: rowKey(layout.rows, p.row), side: rangeAt(view, p, side)?.side ?? side });
    },
    [view],
  );
  const go = (p: Place | undefined, align: "start" | "center" | "nearest" = "start") => {
    if (!p) return;
    hold();
    take(p, hand?.side);
    scrollTo(p, align);
    scroller.current?.focus({ preventScroll: true });
  };

  // Scrolls to a requested position as soon as it is loaded.
  const wanted = useRef<{ path: string; line?: { side: SideName; line: number } }>(undefined);
  const arrive = useCallback(() => {
    const w = wanted.current;
    if (!w) return;
    const file = view.files.findIndex((f) => f.file.path === w.path);
    if (file < 0) return;
    const at = w.line && placeOf(view, file, w.line.side, w.line.line);
    if (w.line && !at) {
      const { loaded } = view.files[file]!;
      reading.unfold(file);
      if (loaded.state === "ready" && !loaded.whole) reading.needWhole(file);
      else if (loaded.state === "ready") reading.openAround(file, w.line.side, w.line.line);
      scrollTo({ file, row: 0 }, "start");
      // A line there is none of is not waited for.
      const there = loaded.state !== "ready" || !loaded.whole || findLine(loaded.patch, w.line.side, w.line.line) >= 0;
      if (there && loaded.state !== "error" && !view.files[file]!.file.binary) return;
    }
    wanted.current = undefined;
    if (w.line && !at && view.files[file]!.loaded.state === "ready")
      toast({ title: t`Line ${w.line.line} is not there any more`, text: visible(w.path) });
    const p = at ?? { file, row: 0 };
    take(p, w.line?.side);
    scrollTo(p, at ? "center" : "start");
  }, [view, reading, scrollTo, take]);
  useLayoutEffect(arrive, [arrive]);

  const latest = useRef({ view, here, hand, arrive });
  useLayoutEffect(() => {
    latest.current = { view, here, hand, arrive };
  });
  useImperativeHandle(
    ref,
    () => ({
      show: (path, line) => {
        wanted.current = { path, line };
        latest.current.arrive();
      },
      inHand: () => {
        const l = latest.current;
        return l.here && rangeAt(l.view, l.here, l.hand?.side ?? "new");
      },
      focus: () => scroller.current?.focus({ preventScroll: true }),
    }),
    [scroller],
  );

  const next = (by: 1 | -1, test: (p: Place) => boolean) => here && walk(view, within, here, by, test);
  const stop = (p: Place) => isStop(view, p);
  useAction("diff.nextHunk", () => go(!taken && here && stop(here) ? here : next(1, stop), "center"));
  useAction("diff.previousHunk", () => go(next(-1, stop), "center"));
  useAction("diff.nextFile", () => go(next(1, (p) => isHead(view, p))));
  useAction("diff.previousFile", () => {
    if (!here) return;
    go(here.row > 0 ? { file: here.file, row: 0 } : next(-1, (p) => isHead(view, p)));
  });
  // What folds keeps its head where the reader looks.
  const keepHead = (file: number) => {
    take({ file, row: 0 });
    if ((view.tops[file] ?? 0) - base < box.exact) scrollTo({ file, row: 0 }, "start");
  };
  const fold = (file: number) => {
    keepHead(file);
    reading.toggleFold(file);
  };
  const viewed = (file: number) => {
    hold();
    keepHead(file);
    props.onViewed(file);
  };
  useAction("diff.fold", () => here && fold(here.file));
  useAction("diff.viewed", () => here && viewed(here.file));

  const byLine = (by: 1 | -1, extend: boolean) => {
    const p = taken && isLine(view, taken) ? next(by, (q) => isLine(view, q)) : next(1, (q) => isLine(view, q));
    if (!p) return;
    const was = taken && rangeAt(view, taken, hand?.side ?? "new");
    go(p, "nearest");
    const now = rangeAt(view, p, hand?.side ?? "new");
    if (extend && now && was) choosing.extend(was, now);
  };
  const choosing = useChoosing(view, chosen, props.onChoose, (p, side) => {
    hold();
    take(p, side);
  });
  const [under, setUnder] = useState<{ path: string; row: string; side: SideName }>();
  const over = (e: PointerEvent) => {
    if (e.pointerType === "touch" || !added.actsOnLines) return;
    const at = choosing.placeOf(e.target, e.clientX);
    const path = at && view.files[at.place.file]?.file.path;
    setUnder((old) => {
      if (!at || path === undefined) return undefined;
      const row = rowKey(view.layouts[at.place.file]!.rows, at.place.row);
      return old?.path === path && old.row === row && old.side === at.side ? old : { path, row, side: at.side };
    });
  };

  const onMoved = () => {
    wanted.current = undefined;
    moved();
    hold();
  };
  const stuck = top && view.files[top.file];
  const headGone = top !== undefined && top.row !== 0;
  const headFloats = stuck && headGone ? top.file : -1;
  const acts = (p: Place): LineRange | undefined => {
    if (!added.actsOnLines) return undefined;
    const path = view.files[p.file]!.file.path;
    const key = rowKey(view.layouts[p.file]!.rows, p.row);
    const hovered = under?.path === path && under.row === key ? under.side : undefined;
    const held = !under && taken?.file === p.file && taken.row === p.row ? (hand?.side ?? "new") : undefined;
    const last = chosen?.path === path && !under ? chosen.side : undefined;
    const side = hovered ?? held ?? last;
    const range = side && rangeAt(view, p, side);
    if (!range) return undefined;
    if (chosen && chosen.path === path && chosen.side === range.side && chosen.end_line === range.line) return chosen;
    return hovered || held ? range : undefined;
  };
  const actsOf = useStable(rows.map((p) => acts(p)));

  return (
    <div className="diff-frame relative min-h-0 flex-1 bg-bg0">
      {stuck && headGone && (
        <div className="absolute inset-x-0 top-0 z-10 border-b border-hairline bg-bg2">
          <FileHead
            file={stuck}
            onFold={() => fold(top.file)}
            onViewed={() => viewed(top.file)}
            actions={added.fileActions(stuck.file)}
            floating
          />
        </div>
      )}
      <div
        ref={scroller}
        role="region"
        aria-label={t`Diff`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        onWheel={onMoved}
        onTouchMove={onMoved}
        onPointerDown={(e) => {
          onMoved();
          choosing.down(e);
        }}
        onPointerOver={over}
        onPointerLeave={() => setUnder(undefined)}
        onKeyDown={(e) => {
          if (e.target !== e.currentTarget || e.altKey || e.ctrlKey || e.metaKey) return;
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            setUnder(undefined);
            byLine(e.key === "ArrowDown" ? 1 : -1, e.shiftKey);
          } else if (e.key === "Escape" && chosen) props.onChoose(undefined);
          else if (SCROLL_KEYS.has(e.key)) onMoved();
        }}
        data-loaded={view.files.filter((f) => f.loaded.state === "ready").length}
        className="diff h-full scroll-pt-10 overflow-x-hidden overflow-y-auto"
      >
        <div className="relative overflow-hidden" style={{ height }}>
          <div
            ref={body}
            className="absolute inset-x-0 top-0"
            style={{ transform: `translateY(${rows[0] ? topOf(view, rows[0]) - base : 0}px)` }}
          >
            {rows.map((p, i) => {
              const file = view.files[p.file]!;
              const layout = view.layouts[p.file]!;
              const { path } = file.file;
              return (
                <div
                  key={`${file.id}/${rowKey(layout.rows, p.row)}`}
                  data-file={p.file}
                  data-row={p.row}
                  className={p.row === 0 && p.file === headFloats ? "invisible" : undefined}
                >
                  <DiffRow
                    layout={layout}
                    row={p.row}
                    index={p.file}
                    file={file}
                    reading={reading}
                    added={added}
                    colored={file.loaded.state === "ready" && isColored(file.loaded.patch)}
                    find={props.find}
                    current={isHit(view, p, props.hit)}
                    inHand={taken?.file === p.file && taken.row === p.row && p.row > 0}
                    chosen={chosen?.path === path ? chosen : undefined}
                    acts={actsOf[i]}
                    ignoreSpace={props.ignoreSpace}
                    onFold={fold}
                    onViewed={viewed}
                  />
                </div>
              );
            })}
          </div>
        </div>
      </div>
      <p role="status" className="sr-only">
        {taken && hand && spoken(view, taken, hand.side)}
      </p>
    </div>
  );
}

const any = () => true;

const SCROLL_KEYS = new Set(["PageUp", "PageDown", "Home", "End", " "]);

function isHit(v: ReadingView, p: Place, hit: LineRange | undefined): boolean {
  if (!hit || v.files[p.file]?.file.path !== hit.path) return false;
  const at = rangeAt(v, p, hit.side);
  return at?.side === hit.side && at.line === hit.line;
}

/** What is read out of the line in hand. */
function spoken(v: ReadingView, p: Place, side: SideName): string {
  const at = rangeAt(v, p, side);
  return at ? `${at.side === "old" ? t`Old line` : t`Line`} ${at.line}` : "";
}

/** Keeps object identity while the values are equal, so rows do not rerender. */
function useStable(list: readonly (LineRange | undefined)[]): readonly (LineRange | undefined)[] {
  const [known] = useState(() => new Map<string, LineRange>());
  return list.map((r) => {
    if (!r) return undefined;
    const key = `${r.side}${r.line}-${r.end_line} ${r.path}`;
    const same = known.get(key);
    if (same) return same;
    if (known.size > 500) known.clear();
    known.set(key, r);
    return r;
  });
}
