import { type KeyboardEvent, type PointerEvent, useState } from "react";
import { cx } from "@/kit/cx";

interface Props {
  /** The left pane's share of the width, 0 to 1, and the least it can have. */
  share: number;
  least: number;
  onShare: (share: number) => void;
  onReset: () => void;
}

const STEP = 0.02;

/** Between two panes: drag it, move it by the arrow keys, or double-click it to share the width as usual. */
export function Divider({ share, least, onShare, onReset }: Props) {
  const [dragging, setDragging] = useState(false);
  const move = (e: PointerEvent<HTMLElement>) => {
    const frame = e.currentTarget.parentElement?.getBoundingClientRect();
    if (dragging && frame) onShare((e.clientX - frame.left) / frame.width);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const to = { ArrowLeft: share - STEP, ArrowRight: share + STEP, Home: 0, End: 1 }[e.key];
    if (to !== undefined) onShare(to);
    else if (e.key === "Enter") onReset();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      role="separator"
      aria-label="Width of the agent's pane"
      aria-orientation="vertical"
      aria-valuenow={Math.round(share * 100)}
      aria-valuemin={Math.round(least * 100)}
      aria-valuemax={Math.round((1 - least) * 100)}
      tabIndex={0}
      title="Drag to resize. Double-click to reset."
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
