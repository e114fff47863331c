import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { useNow } from "@/format/now";
import { Kbd } from "@/kit/kbd";
import { copyLink } from "@/kit/link";
import { useMe } from "@/state/team";
import type { TerminalHandle } from "@/terminal/handle";
import type { TerminalView } from "@/terminal/state";
import { KeyboardLine, Presence } from "./presence";
import { SessionTokens } from "./session-tokens";
import { StateChip } from "./state-chip";

const LINK: Record<TerminalView["link"]["phase"], { sign: string; color: string; word: string }> = {
  connecting: { sign: "◔", color: "text-running", word: t`Connecting` },
  live: { sign: "●", color: "text-merged", word: t`Live` },
  waiting: { sign: "◔", color: "text-needs", word: t`Reconnecting` },
  ended: { sign: "□", color: "text-fg3", word: t`Ended` },
  gone: { sign: "▲", color: "text-failed", word: t`This session no longer exists` },
  denied: { sign: "▲", color: "text-failed", word: t`You do not have access to this terminal` },
};

interface Props {
  session: Session | undefined;
  handle: TerminalHandle;
  view: TerminalView;
  ended: boolean;
  writer: boolean;
  onFind: () => void;
  onOlder: () => void;
}

function sizedBy(view: TerminalView, me: string): string {
  if (view.mine) return t`, sized to your screen`;
  if (!view.owner) return "";
  return view.owner.userId === me ? t`, sized to another of your screens` : t`, sized to ${view.owner.name}'s screen`;
}

/** The line below a terminal: its connection, its size and who gave it, who is watching. */
export function StatusLine({ session, handle, view, ended, writer, onFind, onOlder }: Props) {
  const now = useNow(500);
  const me = useMe();
  const link = LINK[ended && view.link.phase !== "waiting" ? "ended" : view.link.phase];
  const seconds = Math.ceil((view.link.retryAt - now) / 1000);
  const waiting = view.link.phase === "waiting";
  return (
    <div className="short:hidden flex min-h-7 flex-wrap items-center gap-x-4 gap-y-0.5 max-md:flex-nowrap max-md:overflow-x-auto max-md:whitespace-nowrap border-t border-hairline bg-bg1 px-4 text-meta text-fg2">
      <span role="status" className="flex items-center gap-1.5" data-link={view.link.phase}>
        <span aria-hidden className={link.color}>
          {link.sign}
        </span>
        {link.word}
        {waiting && seconds > 0 && (
          <span aria-hidden>
            <Trans>in {seconds} s</Trans>
          </span>
        )}
      </span>
      {session && !ended && <StateChip session={session} />}
      {waiting && (
        <button type="button" onClick={() => handle.retryNow()} className="min-h-6 text-accent hover:underline">
          <Trans>Try now</Trans>
        </button>
      )}
      {waiting && (
        <span className="text-fg3">
          <Trans>What you type now is not sent.</Trans>
        </span>
      )}
      {!waiting && view.cols > 0 && (
        <span className="tabular-nums">
          {view.cols}×{view.rows}
          {!ended && sizedBy(view, me.user.id)}
        </span>
      )}
      {!waiting && !ended && !view.mine && writer && view.cols > 0 && view.keyboard?.mine !== false && (
        <button type="button" onClick={() => handle.takeSize()} className="min-h-6 text-accent hover:underline">
          <Trans>Fit to my screen</Trans>
        </button>
      )}
      {session?.tokens && <SessionTokens tokens={session.tokens} />}
      {!ended && <Presence view={view} now={now} />}
      {!ended && !waiting && <KeyboardLine handle={handle} view={view} writer={writer} />}
      {!writer && (
        <span>
          <Trans>View only</Trans>
        </span>
      )}
      <button
        type="button"
        onClick={() =>
          copyLink({ tab: "history", session: handle.config.sessionId, at: handle.offset }, t`the link to this moment`)
        }
        className="ml-auto min-h-6 text-fg3 hover:text-fg pointer-coarse:min-h-11"
      >
        <Trans>Copy link</Trans>
      </button>
      <button type="button" onClick={onOlder} className="min-h-6 text-fg3 hover:text-fg pointer-coarse:min-h-11">
        <Trans>Older output</Trans>
      </button>
      <span className="hidden items-center gap-3 text-fg3 md:flex pointer-coarse:hidden">
        <Link
          to="."
          search={(s) => ({ ...s, tab: "history", session: handle.config.sessionId })}
          className="min-h-6 leading-6 hover:text-fg"
        >
          <Trans>Replay</Trans>
        </Link>
        <button type="button" onClick={onFind} className="flex min-h-6 items-center gap-1 hover:text-fg">
          <Kbd keys="mod+f" /> <Trans>find</Trans>
        </button>
        <span className="flex items-center gap-1">
          <Kbd keys="ctrl+shift+e" /> <Trans>leave terminal</Trans>
        </span>
      </span>
    </div>
  );
}
