import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link, useSearch } from "@tanstack/react-router";
import { Suspense } from "react";
import { SETUP } from "@/agents/built-in";
import type { Session, Workspace } from "@/api/client";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { Empty, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import PlaceFirst from "@/sandboxes/place-first";
import PlaceStrip from "@/sandboxes/strip";
import { isShell } from "./sessions";
import { useAgentPane, useShownSession } from "./shown-session";
import SubagentTree from "./subagent-tree";
import TerminalPane from "./terminal-pane";
import type { useStartShell } from "./use-start-shell";

const SessionForm = lazy(() => import("./session-form").then((m) => ({ default: m.SessionForm })));
const FirstStart = lazy(() => import("./first-start"));
const AnswerMode = lazy(() => import("./answer-mode"));

/** The terminal of the session in front, or what starts one. */
export default function TerminalTab({ workspace: w, sessions: all, may, shell, quiet, idle, onAdd, onStarted }: Props) {
  const { view } = useAgentPane();
  const kind = view === "shell" ? "shell" : "agent";
  const sessions = all.filter((s) => isShell(s) === (kind === "shell"));
  const shown = useShownSession(all);
  const onlySetup = sessions.length > 0 && sessions.every((s) => s.agent === SETUP);
  if (sessions.length === 0 || (onlySetup && shown?.agent !== SETUP))
    return (
      <Suspense fallback={<Skeleton label={t`Loading the place`} />}>
        <PlaceFirst workspace={w}>
          <NoSessions workspace={w} kind={kind} may={may} shell={shell} onStarted={onStarted} />
        </PlaceFirst>
      </Suspense>
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Suspense>
        <PlaceStrip workspace={w} />
        {shown && !isShell(shown) && <SubagentTree session={shown} />}
      </Suspense>
      {shown && (
        <div className="min-h-0 flex-1">
          {onlySetup && may ? (
            <div className="grid h-full min-h-0 grid-rows-[minmax(0,1fr)_auto]">
              <Pane session={shown} quiet={quiet} idle={idle} />
              <div className="border-t border-hairline bg-bg1 p-3">
                <Button look="primary" keys="o s" onClick={onAdd}>
                  <Trans>Start a session</Trans>
                </Button>
              </div>
            </div>
          ) : (
            <Pane session={shown} quiet={quiet} idle={idle} />
          )}
        </div>
      )}
    </div>
  );
}

function Pane({ session: s, quiet, idle }: { session: Session; quiet: boolean; idle: boolean }) {
  // A window made narrow, or magnified, has a keyboard for the terminal.
  const phone = useMedia("(max-width: 767px) and (pointer: coarse)");
  const { live } = useSearch({ from: "/$team/w/$key" });
  if (phone && !live && !isShell(s))
    return (
      <Suspense fallback={<Skeleton label={t`Opening the session`} />}>
        <AnswerMode key={s.id} session={s} />
      </Suspense>
    );
  const pane = (
    <Suspense fallback={<Skeleton label={t`Opening the terminal`} />}>
      <TerminalPane key={s.id} sessionId={s.id} workspaceId={s.workspace_id} quiet={quiet} idle={idle} />
    </Suspense>
  );
  if (!phone || isShell(s)) return pane;
  return (
    <div className="grid h-full min-h-0 grid-rows-[auto_minmax(0,1fr)]">
      <Link
        to="."
        search={(x) => ({ ...x, live: undefined })}
        className="flex min-h-11 items-center gap-1.5 border-b border-hairline bg-bg1 px-3 text-meta text-fg2 -outline-offset-2"
      >
        <Icon name="arrowLeft" size={14} />
        <Trans>Back to the last lines</Trans>
      </Link>
      {pane}
    </div>
  );
}

interface Props {
  workspace: Workspace;
  sessions: Session[];
  may: boolean;
  shell: ReturnType<typeof useStartShell>;
  /** Something else was opened: the terminal takes no focus. */
  quiet: boolean;
  /** Another terminal beside it has the keys. */
  idle: boolean;
  onAdd: () => void;
  onStarted: (s: Session) => void;
}

interface NoneProps {
  workspace: Workspace;
  kind: "agent" | "shell";
  may: boolean;
  shell: ReturnType<typeof useStartShell>;
  onStarted: (s: Session) => void;
}

function NoSessions({ workspace: w, kind, may, shell, onStarted }: NoneProps) {
  if (w.start) return <FirstStart workspace={w} may={may} />;
  if (!may)
    return (
      <Empty title={t`No session yet`}>
        <Trans>You can watch agents here once someone starts one.</Trans>
      </Empty>
    );
  if (kind === "shell")
    return (
      <Empty
        title={t`No shell open`}
        action={
          <Button look="primary" busy={shell.isPending && t`Opening`} onClick={() => shell.mutate()}>
            <Trans>Open a shell</Trans>
          </Button>
        }
      >
        <Trans>A shell in the workspace's folder, alongside the agent.</Trans>
      </Empty>
    );
  return (
    <div className="h-full overflow-y-auto p-4 md:p-6">
      <div className="max-w-2xl">
        <h2 className="mb-3 text-title font-semibold">
          <Trans>Start a session</Trans>
        </h2>
        <Suspense fallback={<Skeleton />}>
          <SessionForm workspace={w} onStarted={onStarted} />
        </Suspense>
      </div>
    </div>
  );
}
