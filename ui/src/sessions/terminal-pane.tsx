import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { SETUP } from "@/agents/built-in";
import type { Session } from "@/api/client";
import { sessionsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { duration } from "@/format/time";
import QuestionSlot from "@/inbox/question-slot";
import { byBareKey, useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { isCoarse } from "@/state/look";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { FindBar } from "@/terminal/find-bar";
import type { TerminalHandle } from "@/terminal/handle";
import { KeyBar } from "@/terminal/key-bar";
import { hidden, shown, terminalOf } from "@/terminal/registry";
import { ACTIVE_TAB } from "./active-tab";
import { EndedBar } from "./ended-bar";
import MessageBox from "./message-box";
import AsleepBar from "./paused-bar";
import { blankWords, hasEnded, isShell } from "./sessions";
import { StatusLine } from "./status-line";

const GraceLine = lazy(() => import("@/costs/grace-line"));
const OlderOutput = lazy(() => import("@/terminal/older-output"));

interface Props {
  sessionId: string;
  workspaceId: string;
  readOnly?: boolean;
  /** It takes no focus when it opens. */
  quiet?: boolean;
  /** Another terminal beside it has the keys. */
  idle?: boolean;
}

/** One session's terminal with what belongs around it. */
export default function TerminalPane({ sessionId, workspaceId, readOnly, quiet = false, idle = false }: Props) {
  const team = useTeam();
  const sessions = useQuery(sessionsQuery(workspaceId));
  const session = sessions.data?.find((s) => s.id === sessionId);
  const writer = !readOnly && team.can("terminal.type");
  const shell = session ? isShell(session) : false;
  const handle = useMemo(
    () => terminalOf({ sessionId, workspaceId, writer, shell }),
    [sessionId, workspaceId, writer, shell],
  );
  const host = useRef<HTMLDivElement>(null);
  const view = useStore(handle.view);
  const [finding, setFinding] = useState(false);
  const [older, setOlder] = useState(false);
  const asked = useHeight();
  const lift = useLift(handle, asked.height);
  const ended = view.exit !== undefined || (session !== undefined && hasEnded(session));

  const still = useRef(quiet);
  useEffect(() => {
    still.current = quiet;
  });
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    shown(sessionId);
    void handle.attach(place).then(() => {
      // On a phone the keyboard comes only when it is asked for.
      if (!readOnly && !still.current && !isCoarse() && mayTakeFocus()) handle.focus();
    });
    return () => {
      handle.detach(place);
      hidden(sessionId);
    };
  }, [handle, sessionId, readOnly]);

  useTerminalActions(handle, () => setFinding(true), readOnly === true || idle, writer);
  useTabDot(view.bell);

  return (
    <div className="term-pane flex h-full min-h-0 flex-col overflow-hidden bg-bg0">
      {view.progress && (
        <div
          role="progressbar"
          aria-label={t`Program progress`}
          aria-valuenow={view.progress.kind === "part" ? view.progress.part : undefined}
          aria-valuemin={0}
          aria-valuemax={100}
          className="h-0.5 shrink-0 bg-bg3"
        >
          <div
            className={
              view.progress.kind === "busy"
                ? "pulse-mark h-full w-full bg-running"
                : `h-full ${view.progress.failed ? "bg-failed" : "bg-running"}`
            }
            style={view.progress.kind === "part" ? { width: `${view.progress.part}%` } : undefined}
          />
        </div>
      )}
      <div
        className="term-frame relative bg-(--term-bg) min-h-0 min-w-0 flex-1"
        style={lift > 0 ? { transform: `translateY(-${lift}px)` } : undefined}
      >
        {/* The gap around the letters belongs to the frame, so that the host's size is what can be drawn on. */}
        <div
          ref={host}
          data-terminal={sessionId}
          className="absolute inset-y-1.5 right-0 left-3 overflow-auto max-md:left-1.5"
        />
        {finding && <FindBar handle={handle} onClose={() => setFinding(false)} />}
        {view.replaying && view.link.phase === "live" && !ended && (
          <p role="status" className="late absolute top-2 right-4 rounded-md bg-bg3 px-2.5 py-1 text-meta shadow-float">
            <Trans>Loading the screen…</Trans>
          </p>
        )}
        {session && !view.drawn && !shell && !ended && !readOnly && view.link.phase === "live" && (
          <BlankLine session={session} />
        )}
        {view.scrolledUp && (
          <Button className="absolute right-5 bottom-3 bg-bg1 shadow-float" onClick={() => handle.scrollToEnd()}>
            <Icon name="down" size={14} />
            <Trans>Jump to latest</Trans>
          </Button>
        )}
      </div>
      {session && !shell && !readOnly && (
        // A question must not cover new lines or resize the terminal: the terminal moves up behind it, hiding its oldest rows.
        <div className="relative z-10 h-0 shrink-0">
          <div ref={asked.ref} className="absolute inset-x-0 bottom-0">
            <Suspense>
              <QuestionSlot
                session={session}
                via="workspace"
                className="max-h-[60vh] short:max-h-[30vh] overflow-y-auto border-t border-hairline bg-bg2 px-4 py-2.5"
              />
            </Suspense>
          </div>
        </div>
      )}
      {view.gap > 0 && (
        <p className="border-t border-hairline bg-bg1 px-4 py-1 text-meta text-fg3">
          <Trans>{bytes(view.gap)} at the beginning were deleted.</Trans>
        </p>
      )}
      {view.error && (
        <p role="alert" className="border-t border-hairline bg-bg1 px-4 py-1 text-failed">
          {view.error}
        </p>
      )}
      {view.grace && !ended && (
        <Suspense>
          <GraceLine grace={view.grace} />
        </Suspense>
      )}
      {!readOnly && !ended && (
        <Suspense>
          <AsleepBar workspaceId={workspaceId} handle={handle} />
        </Suspense>
      )}
      {ended && session && !readOnly && <EndedBar session={session} exit={view.exit} />}
      {!readOnly && session && !shell && session.agent !== SETUP && (
        <Suspense
          fallback={writer && <div className="h-11 shrink-0 border-t border-hairline bg-bg1 pointer-coarse:h-15" />}
        >
          <MessageBox session={session} ended={ended} may={writer} />
        </Suspense>
      )}
      {!readOnly && (
        <StatusLine
          session={session}
          handle={handle}
          view={view}
          ended={ended}
          writer={writer}
          onFind={() => setFinding(true)}
          onOlder={() => setOlder(true)}
        />
      )}
      {older && (
        <Suspense>
          <OlderOutput sessionId={sessionId} onClose={() => setOlder(false)} />
        </Suspense>
      )}
      {!readOnly && writer && !ended && <KeyBar handle={handle} agent={!shell} latch={view.latch} />}
    </div>
  );
}

/** How far the terminal moves up for an overlay at its end: only as far as needed to keep written rows visible. */
function useLift(handle: TerminalHandle, covered: number): number {
  const [lift, setLift] = useState(0);
  useEffect(() => {
    if (covered === 0) return setLift(0);
    const judge = () => setLift(Math.max(0, Math.ceil(covered - handle.blankBelow())));
    judge();
    const timer = setInterval(judge, 400); // the agent may write on while it asks
    return () => clearInterval(timer);
  }, [handle, covered]);
  return lift;
}

/** The height of an element as it is laid out now. */
function useHeight() {
  const [height, setHeight] = useState(0);
  const stop = useRef<() => void>(undefined);
  const ref = useCallback((el: HTMLElement | null) => {
    stop.current?.();
    stop.current = undefined;
    if (!el) return setHeight(0);
    const watch = new ResizeObserver(() => setHeight(el.offsetHeight));
    watch.observe(el);
    stop.current = () => watch.disconnect();
  }, []);
  return { ref, height };
}

/** Focus an opened terminal, unless a field or dialog has the focus, or a key led here that may be part of a sentence. */
function mayTakeFocus(): boolean {
  if (byBareKey()) return false;
  const at = document.activeElement;
  return !at?.closest("input,textarea,select,[role=dialog],[role=alertdialog],[role=menu]");
}

function useTerminalActions(handle: TerminalHandle, find: () => void, readOnly: boolean, writer: boolean): void {
  useAction("terminal.find", find, !readOnly);
  useAction("terminal.fit", () => handle.takeSize(), writer && !readOnly);
  useAction("terminal.focus", () => handle.focus(), !readOnly);
  useAction(
    "terminal.leave",
    () => {
      // In the terminal the key leads out of it, elsewhere into it.
      if (!document.activeElement?.closest(".xterm")) return handle.focus();
      handle.blur();
      document.getElementById(ACTIVE_TAB)?.focus();
    },
    !readOnly,
  );
}

/** A bell in a window nobody looks at puts a dot before the title. */
function useTabDot(bell: boolean): void {
  useEffect(() => {
    if (!bell || document.hasFocus()) return;
    const before = document.title;
    document.title = `• ${before}`;
    const back = () => {
      document.title = document.title.replace(/^• /, "");
    };
    addEventListener("focus", back, { once: true });
    return () => {
      removeEventListener("focus", back);
      back();
    };
  }, [bell]);
}

/** Until a program has drawn anything: what is awaited and for how long, or that it runs all the same. */
function BlankLine({ session: s }: { session: Session }) {
  const now = useNow(1000);
  return (
    <p role="status" className="late absolute inset-x-0 top-1/3 px-3 text-center text-fg2">
      {blankWords(s)}
      {s.state === "starting" && (
        <span aria-hidden className="ml-2 text-meta text-fg3 tabular-nums">
          {duration(Math.max(0, now - s.started_at))}
        </span>
      )}
    </p>
  );
}
