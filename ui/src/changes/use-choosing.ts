import { type PointerEvent, useEffect, useRef } from "react";
import type { ReadingView } from "./diff/reading";
import type { LineRange, SideName } from "./diff/types";
import { type Place, rangeAt } from "./diff/walk";

/** Choosing of lines by their numbers: press one, drag over several, or hold Shift. */
export function useChoosing(
  view: ReadingView,
  chosen: LineRange | undefined,
  onChoose: (range: LineRange | undefined) => void,
  onTake: (p: Place, side: SideName) => void,
) {
  const latest = useRef({ view, onChoose });
  useEffect(() => {
    latest.current = { view, onChoose };
  });
  const stop = useRef<() => void>(undefined);
  useEffect(() => () => stop.current?.(), []);

  /** The row an element is in, and on which side of it. */
  const placeOf = (target: EventTarget | null, x: number): { place: Place; side: SideName } | undefined => {
    const row = target instanceof Element ? target.closest<HTMLElement>("[data-row]") : null;
    if (!row) return undefined;
    const place = { file: Number(row.dataset.file), row: Number(row.dataset.row) };
    const half = target instanceof Element ? target.closest<HTMLElement>("[data-side]")?.dataset.side : undefined;
    const number = target instanceof Element ? target.closest<HTMLElement>("[data-number]")?.dataset.number : undefined;
    const { left, width } = row.getBoundingClientRect();
    const named = number ?? half ?? (view.options.split && x < left + width / 2 ? "old" : "new");
    const side = named === "old" ? "old" : "new";
    return rangeAt(view, place, side) && { place, side };
  };

  /** From one line to another of the same file and side. */
  const join = (a: LineRange, b: LineRange): LineRange | undefined =>
    a.path === b.path && a.side === b.side
      ? { ...a, line: Math.min(a.line, b.line), end_line: Math.max(a.end_line, b.end_line) }
      : undefined;

  const down = (e: PointerEvent) => {
    if (e.button !== 0 || !(e.target instanceof Element) || !e.target.closest("[data-number]")) return;
    const at = placeOf(e.target, e.clientX);
    const first = at && rangeAt(view, at.place, at.side);
    if (!first) return;
    if (e.pointerType !== "touch") e.preventDefault(); // no text is selected by dragging over numbers
    onTake(at.place, at.side);
    if (e.shiftKey && chosen) {
      onChoose(join(chosen, first) ?? first);
      return;
    }
    const same = chosen && chosen.path === first.path && chosen.side === first.side && chosen.line === first.line;
    onChoose(same && chosen.end_line === first.end_line ? undefined : first);
    if (e.pointerType === "touch") return; // a finger scrolls
    const move = (m: globalThis.PointerEvent) => {
      const row = document.elementFromPoint(m.clientX, m.clientY)?.closest<HTMLElement>("[data-row]");
      if (!row) return;
      const l = latest.current;
      const to = rangeAt(l.view, { file: Number(row.dataset.file), row: Number(row.dataset.row) }, first.side);
      const range = to && join(first, to);
      if (range && range.line !== range.end_line) l.onChoose(range);
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      stop.current = undefined;
    };
    stop.current?.();
    stop.current = end;
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  };

  const extend = (from: LineRange, to: LineRange) => {
    const start = chosen && chosen.path === to.path && chosen.side === to.side ? chosen : from;
    // Going back over what was chosen makes it less.
    const range =
      to.line >= start.line && to.line < start.end_line && from.line === start.end_line
        ? { ...start, end_line: to.line }
        : join(start, to);
    if (range) onChoose(range);
  };

  return { placeOf, down, extend };
}
