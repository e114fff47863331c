import type { ReactNode } from "react";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";

interface FoldableProps {
  open: boolean;
  toggle: (() => void) | undefined;
  head: ReactNode;
  /** What it unfolds, unless that is in rows of its own. */
  children?: ReactNode;
}

/** A line that unfolds. */
export function Foldable({ open, toggle, head, children }: FoldableProps) {
  if (!toggle) return <div className="flex min-h-6 items-center gap-2">{head}</div>;
  return (
    <>
      <button
        type="button"
        aria-expanded={open}
        onClick={toggle}
        className="-mx-1 flex min-h-6 w-full min-w-0 items-center gap-2 rounded-sm px-1 text-left hover:bg-bg2 pointer-coarse:min-h-11"
      >
        <Icon
          name="chevronRight"
          size={12}
          className={cx("shrink-0 text-fg3 transition-transform", open && "rotate-90")}
        />
        {head}
      </button>
      {open && children && <div className="mt-1 mb-2 ml-5 grid gap-1.5">{children}</div>}
    </>
  );
}
