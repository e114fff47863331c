import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Session } from "@/api/client";
import type { Moment } from "@/api/history";
import { visible } from "@/format/text";
import { exact } from "@/format/time";
import { cx } from "@/kit/cx";
import { stamp } from "./recording";

const WORDS: Record<Moment["kind"], { word: string; sign: string; color: string }> = {
  prompt: { word: t`Prompt`, sign: "›", color: "text-accent" },
  question: { word: t`Question`, sign: "?", color: "text-needs" },
  answer: { word: t`Answer`, sign: "✓", color: "text-fg2" },
  interrupt: { word: t`Interrupt`, sign: "■", color: "text-failed" },
  state: { word: t`Needed attention`, sign: "◆", color: "text-needs" },
  files: { word: t`Files`, sign: "±", color: "text-merged" },
  commit: { word: t`Commit`, sign: "●", color: "text-merged" },
};

interface Props {
  moments: Moment[];
  /** Where the replay is. */
  at: number;
  from: number;
  session: Session;
  onGo: (m: Moment) => void;
}

/** The navigable events of a session. The latest one is marked. */
export function Moments({ moments, at, from, onGo }: Props) {
  const now = moments.findLast((m) => m.at <= at)?.key;
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    list.current?.querySelector(`[data-key="${now}"]`)?.scrollIntoView({ block: "nearest" });
  }, [now]);
  return (
    <ol
      ref={list}
      aria-label={t`Moments of the session`}
      className="w-72 shrink-0 overflow-y-auto border-l border-hairline bg-bg1 py-1 @max-5xl:max-h-40 @max-5xl:w-full @max-5xl:border-t @max-5xl:border-l-0"
    >
      {moments.map((m) => {
        const w = WORDS[m.kind];
        return (
          <li key={m.key} data-key={m.key} className={cx("group relative", m.key === now && "bg-bg3")}>
            <button
              type="button"
              onClick={() => onGo(m)}
              aria-current={m.key === now ? "step" : undefined}
              title={exact(m.at)}
              className="flex w-full items-baseline gap-2 px-3 py-1 text-left -outline-offset-2 hover:bg-bg2 pointer-coarse:min-h-11"
            >
              <span className="w-12 shrink-0 text-meta text-fg3 tabular-nums">{stamp(m.at - from)}</span>
              <span aria-hidden className={cx("w-3 shrink-0 text-center", w.color)}>
                {w.sign}
              </span>
              <span className="line-clamp-2 min-w-0 flex-1 break-words">
                <span className="text-fg3">{w.word}: </span>
                {visible(m.text)}
              </span>
            </button>
            {m.paths?.[0] && (
              <Link
                to="."
                search={(s) => ({
                  ...s,
                  tab: "changes",
                  file: m.paths![0],
                  session: undefined,
                  at: undefined,
                  q: undefined,
                })}
                className="ml-20 flex min-h-6 items-center truncate px-3 text-meta text-accent -outline-offset-2 hover:underline pointer-coarse:min-h-11"
              >
                <Trans>Show in Changes</Trans>
              </Link>
            )}
          </li>
        );
      })}
    </ol>
  );
}
