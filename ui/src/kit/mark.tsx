import { t } from "@lingui/core/macro";
import { LOGO } from "./classes";
import { cx } from "./cx";

/** The product's mark, in the colour of the text around it: lanes that run side by side and come back as one. */
export function Logo({ size = 18 }: { size?: number }) {
  return (
    <svg
      aria-hidden
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      className="shrink-0"
    >
      <path d={LOGO} />
    </svg>
  );
}

/** States, each with a shape, a word and a colour; the shapes are distinct without colour. */
export type MarkKind = "needs" | "failed" | "review" | "running" | "setup" | "idle" | "done" | "merged" | "stopped";

export const MARKS: Record<MarkKind, { word: string; color: string }> = {
  needs: { word: t`Needs you`, color: "text-needs" },
  failed: { word: t`Failed`, color: "text-failed" },
  review: { word: t`Ready to review`, color: "text-review" },
  running: { word: t`Working`, color: "text-running" },
  setup: { word: t`Setting up`, color: "text-running" },
  idle: { word: t`Idle`, color: "text-idle" },
  done: { word: t`Done`, color: "text-idle" },
  merged: { word: t`Merged`, color: "text-merged" },
  stopped: { word: t`Archived`, color: "text-idle" },
};

/** The shape alone. Put the word beside it, visible or for screen readers. */
export function Shape({ kind, className }: { kind: MarkKind; className?: string }) {
  return (
    <svg
      aria-hidden
      data-mark={kind}
      width="10"
      height="10"
      viewBox="0 0 10 10"
      className={cx("shrink-0", MARKS[kind].color, kind === "running" && "pulse-mark", className)}
    >
      {shape(kind)}
    </svg>
  );
}

function shape(kind: MarkKind) {
  switch (kind) {
    case "needs":
      return <path d="M5 0 10 5 5 10 0 5Z" fill="currentColor" />;
    case "failed":
      return <path d="M5 .6 9.8 9.4H.2Z" fill="currentColor" />;
    case "review":
      return (
        <path
          d="M5 .7 9.3 5 5 9.3.7 5Zm0 2.4L3.1 5 5 6.9 6.9 5Z"
          fill="currentColor"
          stroke="currentColor"
          strokeWidth=".8"
        />
      );
    case "running":
      return <circle cx="5" cy="5" r="4.4" fill="currentColor" />;
    case "setup":
      return (
        <>
          <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" strokeWidth="1.2" />
          <path d="M5 1a4 4 0 0 1 4 4H5Z" fill="currentColor" />
        </>
      );
    case "idle":
      return <circle cx="5" cy="5" r="3.9" fill="none" stroke="currentColor" strokeWidth="1.4" />;
    case "done":
    case "merged":
      return (
        <path
          d="m1 5.4 2.7 2.7L9 2.2"
          fill="none"
          stroke="currentColor"
          strokeWidth="1.7"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      );
    case "stopped":
      return <rect x="1.4" y="1.4" width="7.2" height="7.2" fill="none" stroke="currentColor" strokeWidth="1.4" />;
  }
}

/** Shape and word together. */
export function Mark({ kind, word, className }: { kind: MarkKind; word?: string; className?: string }) {
  return (
    <span className={cx("inline-flex items-center gap-1.5 whitespace-nowrap", MARKS[kind].color, className)}>
      <Shape kind={kind} />
      {word ?? MARKS[kind].word}
    </span>
  );
}
