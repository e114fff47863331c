import { t } from "@lingui/core/macro";
import { type KeyboardEvent, type PointerEvent, useState } from "react";
import { cx } from "./cx";

interface Props {
  /** What it changes, such as "Width of the sidebar". */
  label: string;
  value: number;
  min: number;
  max: number;
  /** One press of an arrow key. */
  step: number;
  /** The value where the pointer is: its distance from the left edge of what is around it, and the width of that. */
  valueAt: (x: number, width: number) => number;
  onValue: (value: number) => void;
  onReset: () => void;
}

/** Between two panes: drag it, move it by the arrow keys, or double-click it for the usual width. */
export function Divider({ label, value, min, max, step, valueAt, onValue, onReset }: Props) {
  const [dragging, setDragging] = useState(false);
  const move = (e: PointerEvent<HTMLElement>) => {
    const frame = e.currentTarget.parentElement?.getBoundingClientRect();
    if (dragging && frame) onValue(valueAt(e.clientX - frame.left, frame.width));
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const to = { ArrowLeft: value - step, ArrowRight: value + step, Home: min, End: max }[e.key];
    if (to !== undefined) onValue(to);
    else if (e.key === "Enter") onReset();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      role="separator"
      aria-label={label}
      aria-orientation="vertical"
      aria-valuenow={Math.round(value)}
      aria-valuemin={Math.round(min)}
      aria-valuemax={Math.round(max)}
      tabIndex={0}
      title={t`Drag to resize. Double-click to reset.`}
      onPointerDown={(e) => {
        if (e.button !== 0) return;
        e.currentTarget.setPointerCapture(e.pointerId); // also over a frame of another page
        setDragging(true);
      }}
      onPointerMove={move}
      onPointerUp={() => setDragging(false)}
      onPointerCancel={() => setDragging(false)}
      onDoubleClick={onReset}
      onKeyDown={onKeyDown}
      className={cx(
        "relative z-10 w-px shrink-0 cursor-col-resize touch-none bg-hairline -outline-offset-1",
        "before:absolute before:inset-y-0 before:-left-1 before:w-2.5 before:content-[''] hover:bg-accent",
        dragging && "bg-accent",
      )}
    />
  );
}
