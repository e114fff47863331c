import { t } from "@lingui/core/macro";
import { useNow } from "@/format/now";
import { countdown, fate, type TerminalGrace } from "./grace";

/** Shown below a terminal whose workspace reached a limit: the time left. Nothing is written into the terminal itself. */
export default function GraceLine({ grace: g }: { grace: TerminalGrace }) {
  const now = useNow(500);
  const counts = g.state === "counting";
  return (
    <p
      data-grace-line={g.state}
      className="flex flex-wrap items-baseline gap-x-2 border-t border-hairline bg-bg2 px-4 py-1 text-meta text-fg2"
    >
      <span aria-hidden className={counts ? "text-needs" : "text-fg3"}>
        {counts ? "▲" : "❚❚"}
      </span>
      <span className="min-w-0 break-words">
        {g.reason} {fate(g.state)}
      </span>
      {counts && (
        <span role="timer" aria-live="off" aria-label={t`Time left`} className="font-mono tabular-nums text-fg">
          {countdown(g.endsAt - now)}
        </span>
      )}
    </p>
  );
}
