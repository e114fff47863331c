import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { useNow } from "@/format/now";
import { sentence } from "@/format/text";
import { duration } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Shape } from "@/kit/mark";
import type { Conversation } from "./feed";
import { type Status, statusOf } from "./status";

interface Props {
  session: Session;
  conversation: Conversation;
  /** Sends the agent on. */
  onAgain: () => void;
  busy: boolean;
  may: boolean;
}

const MARK = { idle: "idle", working: "running", waiting: "needs", failed: "failed", stopped: "stopped" } as const;

/** What the agent does or why it does not, and a button that sends it on. */
export function StateLine({ session, conversation, onAgain, busy, may }: Props) {
  const s = statusOf(conversation);
  const { link } = conversation;
  if (link === "missing" && session.state === "starting")
    return (
      <Line mark="working">
        <Trans>The session is starting.</Trans>
      </Line>
    );
  if (link === "reconnecting")
    return (
      <Line mark="working">
        <Trans>The connection was lost. Connecting again…</Trans>
      </Line>
    );
  if (s.kind === "idle") return null;
  return (
    <Line mark={s.kind}>
      <span className={cx("min-w-0 flex-1", s.kind === "failed" ? "basis-48 break-words" : "truncate")} title={s.words}>
        {s.kind === "failed" ? (
          <>
            <span className="font-medium text-failed">
              <Trans>The turn failed.</Trans>
            </span>{" "}
            {sentence(s.words)}
          </>
        ) : (
          s.words
        )}
      </span>
      {s.code && <code className="text-micro text-fg3">{s.code}</code>}
      {s.code === "model_unauthorized" && (
        <Link
          from="/$team/w/$key"
          to="/$team/settings/{-$section}"
          params={(p) => ({ team: p.team, section: "agents" })}
          className="text-accent hover:underline"
        >
          <Trans>Check the account</Trans>
        </Link>
      )}
      {s.kind === "working" && <Elapsed since={s.since} />}
      {may && s.again && (
        <Button busy={busy && t`Sending`} onClick={onAgain}>
          {s.again === "Retry" ? t`Retry` : t`Go on`}
        </Button>
      )}
    </Line>
  );
}

function Line({ mark, children }: { mark: Status["kind"]; children: React.ReactNode }) {
  return (
    <div className="flex min-h-7 flex-wrap items-center gap-x-2.5 gap-y-1 px-1 text-meta text-fg2">
      <Shape kind={MARK[mark]} />
      {children}
    </div>
  );
}

function Elapsed({ since }: { since: number }) {
  const now = useNow(1000);
  const ms = now - since;
  return ms >= 2000 ? <span className="shrink-0 text-fg3 tabular-nums">{duration(ms - (ms % 1000))}</span> : null;
}
