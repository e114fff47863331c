import { type PointerEvent as Press, useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";

interface Dragging {
  id: string;
  label: string;
  x: number;
  y: number;
  /** The data-drop of what is under the pointer. */
  over: string | undefined;
}

const FAR = 6; // px: a shorter way is a click
const EDGE = 36; // px: so near its edge a list scrolls

/**
 * Dragging with a mouse or a pen: what is pressed goes to an element with `data-drop`. Fingers scroll instead, and Escape
 * cancels. Every drag needs a menu item that does the same.
 */
export function useDrag(onDrop: (id: string, zone: string) => void) {
  const [dragging, setDragging] = useState<Dragging>();
  const drop = useRef(onDrop);
  useEffect(() => {
    drop.current = onDrop;
  });
  const leave = useRef<() => void>(undefined);
  useEffect(() => () => leave.current?.(), []);

  const press = (e: Press<HTMLElement>, id: string, label: string) => {
    const inside = e.target instanceof Element && e.target.closest("button,input,select,textarea");
    if (e.button !== 0 || e.pointerType === "touch" || inside) return;
    const from = { x: e.clientX, y: e.clientY };
    const listening = new AbortController();
    let over: string | undefined;
    let begun = false;
    const end = (done: boolean) => {
      listening.abort();
      leave.current = undefined;
      if (!begun) return;
      document.body.style.userSelect = "";
      setDragging(undefined);
      // The click that ends it is not one on a link.
      const stop = (click: Event) => {
        click.preventDefault();
        click.stopPropagation();
      };
      addEventListener("click", stop, { capture: true, once: true });
      setTimeout(() => removeEventListener("click", stop, { capture: true }), 0);
      if (done && over !== undefined) drop.current(id, over);
    };
    leave.current = () => end(false);
    const on = { signal: listening.signal };
    addEventListener(
      "pointermove",
      (m) => {
        if (!begun && Math.hypot(m.clientX - from.x, m.clientY - from.y) < FAR) return;
        if (!begun) getSelection()?.removeAllRanges();
        begun = true;
        document.body.style.userSelect = "none";
        const under = document.elementFromPoint(m.clientX, m.clientY);
        over = under?.closest<HTMLElement>("[data-drop]")?.dataset.drop;
        const list = under?.closest("[data-drag-scroll]");
        const box = list?.getBoundingClientRect();
        if (box && m.clientY < box.top + EDGE) list?.scrollBy(0, -12);
        else if (box && m.clientY > box.bottom - EDGE) list?.scrollBy(0, 12);
        const wide = under?.closest("[data-drag-scroll-x]");
        const sides = wide?.getBoundingClientRect();
        if (sides && m.clientX < sides.left + EDGE) wide?.scrollBy(-16, 0);
        else if (sides && m.clientX > sides.right - EDGE) wide?.scrollBy(16, 0);
        setDragging({ id, label, x: m.clientX, y: m.clientY, over });
      },
      on,
    );
    addEventListener("pointerup", () => end(true), on);
    addEventListener("pointercancel", () => end(false), on);
    addEventListener(
      "keydown",
      (k) => {
        if (k.key !== "Escape" || !begun) return;
        k.preventDefault();
        k.stopPropagation();
        end(false);
      },
      { ...on, capture: true },
    );
  };
  return { dragging, press };
}

/** What is being dragged, at the pointer. `note` says what dropping it here does. */
export function Dragged({ dragging: d, note }: { dragging: Dragging | undefined; note?: string }) {
  if (!d) return null;
  return createPortal(
    <div
      aria-hidden
      className="pointer-events-none fixed z-50 max-w-72 rounded-md bg-bg1 px-2.5 py-1.5 shadow-float"
      style={{ left: Math.min(d.x + 12, innerWidth - 290), top: d.y + 12 }}
    >
      <p className="truncate font-medium">{d.label}</p>
      {note && <p className="text-meta text-fg2">{note}</p>}
    </div>,
    document.body,
  );
}
