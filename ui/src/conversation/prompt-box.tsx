import { t } from "@lingui/core/macro";
import { type ReactNode, useState } from "react";
import { clock, exact } from "@/format/time";
import { cx } from "@/kit/cx";

/** Lines of a prompt that are shown before it is unfolded. */
const LONG = 14;

interface Props {
  title: string;
  text: string;
  at: number;
  now: number;
  /** It is no longer part of the conversation. */
  faded?: boolean;
  /** What can be done with it, beside its time. */
  acts?: ReactNode;
  children?: ReactNode;
}

/** What a person asked an agent for. */
export function PromptBox({ title, text, at, now, faded, acts, children }: Props) {
  const [all, setAll] = useState(false);
  const lines = text.split("\n");
  const long = lines.length > LONG || text.length > 2000;
  const shown = all || !long ? text : lines.slice(0, LONG).join("\n").slice(0, 2000);
  return (
    <div className={cx("mt-2 rounded-md border-l-2 border-accent bg-bg2 px-3 py-2", faded && "opacity-60")}>
      <p className="flex items-baseline justify-between gap-3 text-meta text-fg2">
        <span className="font-medium">{title}</span>
        <span className="flex items-baseline gap-2">
          {acts}
          <time dateTime={new Date(at).toISOString()} title={exact(at)} className="shrink-0 text-fg3">
            {clock(at, now)}
          </time>
        </span>
      </p>
      <p className="mt-0.5 break-words whitespace-pre-wrap">{shown}</p>
      {long && (
        <button
          type="button"
          onClick={() => setAll((v) => !v)}
          className="min-h-6 text-meta text-accent hover:underline"
        >
          {all ? t`Show less` : t`Show all of it`}
        </button>
      )}
      {children}
    </div>
  );
}
