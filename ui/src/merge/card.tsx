import { type ReactNode, useId } from "react";
import type { Workspace } from "@/api/client";
import { cx } from "@/kit/cx";

/** The props of a card of the Merge tab. A card loads its own data and renders nothing if it does not apply. */
export interface CardProps {
  workspace: Workspace;
}

interface Props {
  title: string;
  /** Beside the title: a state in a word, a small button. */
  aside?: ReactNode;
  className?: string;
  children?: ReactNode;
}

/** One card of the Merge tab. */
export function MergeCard({ title, aside, className, children }: Props) {
  const id = useId();
  return (
    <section aria-labelledby={id} className={cx("panel", className)}>
      <header className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1 px-4 pt-3">
        <h2 id={id} className="font-semibold">
          {title}
        </h2>
        {aside && <div className="flex flex-wrap items-center gap-2 text-fg2">{aside}</div>}
      </header>
      <div className="flex flex-col gap-3 px-4 pt-1 pb-4">{children}</div>
    </section>
  );
}
