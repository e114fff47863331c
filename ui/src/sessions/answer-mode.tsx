import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { api, data, type Session } from "@/api/client";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { questionOf } from "@/inbox/api";
import { readable } from "@/inbox/lines";
import QuestionSlot from "@/inbox/question-slot";
import { buttonClass } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { EndedBar } from "./ended-bar";
import QueuePeek from "./queue-peek";
import { Replies } from "./replies";
import { hasEnded, sessionMark } from "./sessions";

/**
 * A session on a phone: state, question, last lines as wrapped text, and answers. The terminal itself
 * is one tap away; this view does not attach to it, so it does not affect the terminal's size.
 */
export default function AnswerMode({ session: s }: { session: Session }) {
  const team = useTeam();
  const now = useNow();
  const ended = hasEnded(s);
  const mark = sessionMark(s);
  const screen = useScreen(s);
  const lines = readable(screen.data?.tail ?? screen.data?.lines ?? []);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex items-center gap-x-2 border-b border-hairline bg-bg1 py-1 pr-2 pl-3 text-meta">
        <p className="min-w-0 flex-1">
          <Mark kind={mark.mark} word={mark.word} /> <span className="text-fg3">{ago(s.state_at, now)}</span>
          {s.state_reason && !ended && !questionOf(s) && (
            <span className="block truncate text-fg2">{s.state_reason}</span>
          )}
        </p>
        <Link to="." search={(x) => ({ ...x, live: true })} className={buttonClass("plain", "pointer-coarse:h-11")}>
          <Icon name="terminal" size={14} />
          <Trans>Live terminal</Trans>
        </Link>
      </div>
      <LastLines lines={lines} query={screen} agent={s.agent_name} />
      <QuestionSlot
        session={s}
        via="phone"
        className="max-h-[50vh] overflow-y-auto border-t border-hairline bg-bg2 px-3 py-2.5"
      />
      <QueuePeek session={s} />
      {ended && <EndedBar session={s} exit={undefined} />}
      {!ended && team.can("terminal.type") && <Replies session={s} onSent={() => void screen.refetch()} />}
    </div>
  );
}

/** The screen as text, read again every two seconds while the agent works. Hidden pages read nothing. */
function useScreen(s: Session) {
  const ended = hasEnded(s);
  return useQuery({
    queryKey: ["workspace", s.workspace_id, "screen", s.id],
    queryFn: () => data(api.GET("/sessions/{id}/screen", { params: { path: { id: s.id }, query: { tail: 60 } } })),
    refetchInterval: ended ? false : s.state === "working" || s.state === "starting" ? 2000 : 5000,
    staleTime: 0,
    gcTime: 60_000,
  });
}

interface LinesProps {
  lines: string[];
  query: { isPending: boolean; isError: boolean; error: unknown; refetch: () => unknown };
  agent: string;
}

/** The newest line is in sight unless the reader went up. */
function LastLines({ lines, query, agent }: LinesProps) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const text = lines.map((l) => visible(l)).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text is what makes it longer
  useEffect(() => {
    const el = box.current;
    if (el && atEnd.current) el.scrollTop = el.scrollHeight;
  }, [text]);
  if (query.isPending) return <Skeleton label={t`Loading the screen`} />;
  if (query.isError && lines.length === 0)
    return (
      <div className="min-h-0 flex-1 overflow-y-auto p-3">
        <Failure what={t`The screen could not be loaded.`} error={query.error} retry={() => void query.refetch()} />
      </div>
    );
  return (
    <pre
      ref={box}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      role="region"
      aria-label={t`Last lines of ${agent}`}
      onScroll={(e) => {
        const el = e.currentTarget;
        atEnd.current = el.scrollHeight - el.scrollTop - el.clientHeight < 24;
      }}
      className="min-h-0 flex-1 overflow-y-auto bg-bg0 px-3 py-2 text-code leading-[18px] -outline-offset-2 break-words whitespace-pre-wrap"
    >
      {text || (
        <span className="text-fg3">
          <Trans>The screen is empty.</Trans>
        </span>
      )}
    </pre>
  );
}
