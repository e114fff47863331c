import { t } from "@lingui/core/macro";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useNow } from "@/format/now";
import { buttonClass } from "@/kit/button";
import { useTeam } from "@/state/team";
import { countdown, fate, type Grace, goesOn, raise } from "./grace";

/** Shown above a workspace that reached a limit: which limit, the time left, and what the user can do. */
export default function GraceBar({ grace: g }: { grace: Grace }) {
  const team = useTeam();
  const endsAt = useEnd(g);
  const counts = g.state === "counting";
  const way = raise(g.scope);
  const may = team.can("quotas.manage");
  return (
    <section
      aria-label={t`Limit`}
      data-grace={g.state}
      className="flex flex-wrap items-center gap-x-4 gap-y-1 border-t border-hairline bg-bg2 px-4 py-1.5"
    >
      <p role="status" className="min-w-0 flex-1 basis-72">
        <span aria-hidden className={counts ? "text-needs" : "text-fg3"}>
          {counts ? "▲ " : "❚❚ "}
        </span>
        <span className="text-fg">{g.reason}</span>{" "}
        <span className="text-fg2">
          {counts ? t`The sandbox is then paused. Nothing is lost.` : `${fate(g.state)} ${goesOn(g.scope, g.state)}`}
          {way && !may && ` ${way.else}`}
        </span>
      </p>
      {counts && <Left endsAt={endsAt} />}
      {way && may && (
        <Link
          to="/$team/settings/{-$section}"
          params={{ team: team.slug, section: way.section }}
          className={buttonClass("plain")}
        >
          {way.name}
        </Link>
      )}
    </section>
  );
}

/** The time left. Screen readers get it with the sentence next to it, not every second. */
function Left({ endsAt }: { endsAt: number }) {
  const now = useNow(500);
  return (
    <span role="timer" aria-live="off" aria-label={t`Time left`} className="font-mono text-body tabular-nums text-fg">
      {countdown(endsAt - now)}
    </span>
  );
}

/** The end of a grace period by this browser's clock, from the remaining time in the response. */
function useEnd(g: Grace): number {
  const [end, setEnd] = useState(() => Date.now() + g.left_ms);
  useEffect(() => setEnd(Date.now() + g.left_ms), [g.left_ms]);
  return end;
}
