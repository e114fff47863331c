import type { ComponentProps, MouseEventHandler, ReactNode } from "react";
import { buttonClass, type Look } from "./classes";
import { cx } from "./cx";
import { Kbd } from "./kbd";

export { buttonClass };

interface Props extends ComponentProps<"button"> {
  look?: Look;
  /** The label while work is in progress; the button is then disabled. */
  busy?: boolean | string;
  /** The key that does the same, shown on the button. */
  keys?: string;
}

export function Button({ look = "plain", busy, keys, className, children, disabled, onClick, ...rest }: Props) {
  return (
    <button
      type="button"
      className={buttonClass(look, className)}
      disabled={disabled || Boolean(busy)}
      aria-busy={busy ? true : undefined}
      onClick={busy === undefined ? onClick : firstClick(onClick)}
      {...rest}
    >
      {busy ? (typeof busy === "string" ? busy : children) : children}
      {busy && <Dots />}
      {keys && !busy && <Kbd keys={keys} onFill={look === "primary"} />}
    </button>
  );
}

let acted = Number.NEGATIVE_INFINITY; // when a click was last taken, in ms

/**
 * Ignores the second click of a double click. It comes before a button can show that it is busy, or after something else has moved under
 * the pointer, and would repeat the action. If the first click changed the page, the second one counts.
 */
export function firstClick(act?: MouseEventHandler<HTMLButtonElement>): MouseEventHandler<HTMLButtonElement> {
  return (e) => {
    if (e.detail > 1 && e.timeStamp - acted < 1000) {
      e.preventDefault(); // nor is a form sent
      return;
    }
    acted = e.timeStamp;
    act?.(e);
  };
}

/** A square button that shows an icon; its label is read out and shown as a tooltip. */
export function IconButton({ label, children, className, ...rest }: ComponentProps<"button"> & { label: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={cx(
        "control-h control-w inline-grid shrink-0 place-items-center rounded-md text-fg2 hover:bg-bg2 hover:text-fg disabled:opacity-45 aria-pressed:bg-bg3 aria-pressed:text-fg",
        className,
      )}
      {...rest}
    >
      {children}
    </button>
  );
}

function Dots(): ReactNode {
  return (
    <span aria-hidden className="inline-flex gap-0.5">
      {[0, 1, 2].map((i) => (
        <span key={i} className="pulse-mark size-1 rounded-full bg-current" style={{ animationDelay: `${i * 0.2}s` }} />
      ))}
    </span>
  );
}
