import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useState } from "react";
import { SETUP } from "@/agents/built-in";
import type { Session, Workspace } from "@/api/client";
import { useAction } from "@/keys/keyboard";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { useRoom } from "@/kit/room";
import { Skeleton } from "@/kit/states";
import { hasEnded, isShell } from "@/sessions/sessions";
import { useAgentPane, useShownSession } from "@/sessions/shown-session";
import { inStrip, type PaneLink, SessionStrip, ViewSwitch } from "@/sessions/strip";
import TerminalPane from "@/sessions/terminal-pane";
import TerminalTab from "@/sessions/terminal-tab";
import { useStartShell } from "@/sessions/use-start-shell";
import { forget, isString, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { isOwn, terminalTab } from "./first-tab";

const ConversationTab = lazy(() => import("@/conversation/tab"));
const StartDialog = lazy(() => import("@/sessions/start-dialog").then((m) => ({ default: m.StartDialog })));

/** Two terminals stand side by side from this width (px) of their pane on, one above the other below it. */
const ABREAST = 900;

interface Props {
  workspace: Workspace;
  sessions: Session[];
  /** Put away: its sessions are only read. */
  closed: boolean;
  /** Something beside it was opened last. */
  quiet: boolean;
  /** There is one pane: the views stand above, this one among them. */
  single: boolean;
  /** At the end of the strip. */
  children?: ReactNode;
}

/** The agent of a workspace: its terminal or its conversation, shells beside it as tabs, and a second terminal if wanted. */
export default function AgentPane({ workspace: w, sessions: all, closed, quiet, single, children }: Props) {
  const team = useTeam();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const room = useRoom();
  const { view } = useAgentPane();
  const shown = useShownSession(all);
  const sessions = inStrip(closed ? all.filter((s) => !isShell(s) && s.agent !== SETUP) : all);
  const may = team.can("terminal.type") && !closed;
  const [starting, setStarting] = useState(false);
  const [second, setSecond] = useSecond(w.id);
  const [at, setAt] = useState<"first" | "second">("first");

  const linkTo = (s: Session): PaneLink => ({
    // Another agent is shown in the same view; Parawork's own in the one that was chosen for it.
    tab: isShell(s) ? "shell" : view === "conversation" && s.agent !== SETUP && !isOwn(s) ? view : undefined,
    session: s.id,
  });
  const open = (s: Session) => void navigate({ search: (x) => ({ ...x, place: undefined, ...linkTo(s) }) });
  const shell = useStartShell(w.id, open);
  const shellBeside = useStartShell(w.id, (s) => setSecond(s.id));
  const add = () => setStarting(true);
  useAction("session.new", add, may);

  const agent = shown && !isShell(shown) && shown.agent !== SETUP ? shown : undefined;
  const talks = view === "conversation";
  // The same terminal cannot stand in two places.
  const beside = all.find((s) => s.id === second && !hasEnded(s) && (talks || s.id !== shown?.id));
  const others = sessions.filter((s) => !hasEnded(s) && (talks || s.id !== shown?.id));
  useAction(
    "conversation.split",
    () => setSecond(beside ? undefined : shown?.id),
    talks && shown !== undefined && !hasEnded(shown),
  );
  const phone = single && room < 560;

  return (
    <div className="flex h-full min-h-0 flex-col">
      <SessionStrip sessions={sessions} shown={shown} linkTo={linkTo} anchor={!single}>
        {agent && (
          <ViewSwitch
            on={talks ? "conversation" : "terminal"}
            linkTo={(v) => ({ tab: v === "conversation" ? v : terminalTab(agent), session: agent.id })}
          />
        )}
        {may && (
          <Menu
            trigger={
              <IconButton
                label={t`New session, shell or split`}
                className="h-7! w-7! pointer-coarse:h-11! pointer-coarse:w-11!"
              >
                <Icon name="plus" size={14} />
              </IconButton>
            }
          >
            <MenuItem keys="o s" onSelect={add}>
              <Trans>Start another session</Trans>
            </MenuItem>
            <MenuItem disabled={shell.isPending} onSelect={() => shell.mutate()}>
              <Trans>Open a shell</Trans>
            </MenuItem>
            {!phone && (
              <MenuItem disabled={shellBeside.isPending} onSelect={() => shellBeside.mutate()}>
                <Trans>Split with a new shell</Trans>
              </MenuItem>
            )}
            {!phone &&
              others
                .filter((s) => s.id !== beside?.id)
                .map((s) => (
                  <MenuItem key={s.id} onSelect={() => setSecond(s.id)}>
                    {s.id === shown?.id
                      ? t`Terminal beside the conversation`
                      : t`Split with ${s.title || s.agent_name}`}
                  </MenuItem>
                ))}
            {beside && (
              <MenuItem onSelect={() => setSecond(undefined)}>
                <Trans>Close the split</Trans>
              </MenuItem>
            )}
          </Menu>
        )}
        {children}
      </SessionStrip>
      <div className={cx("flex min-h-0 flex-1", room < ABREAST && "flex-col")}>
        <div className="min-h-0 min-w-0 flex-1" onFocusCapture={() => setAt("first")}>
          <Suspense fallback={<Skeleton label={t`Loading`} />}>
            {talks ? (
              <ConversationTab workspace={w} />
            ) : (
              <TerminalTab
                key={view}
                workspace={w}
                sessions={sessions}
                may={may}
                shell={shell}
                quiet={quiet}
                idle={beside !== undefined && at === "second"}
                onAdd={add}
                onStarted={open}
              />
            )}
          </Suspense>
        </div>
        {beside && !closed && !phone && (
          <section
            aria-label={t`Beside: ${beside.title || beside.agent_name}`}
            onFocusCapture={() => setAt("second")}
            className={cx(
              "flex min-h-0 min-w-0 flex-1 flex-col border-hairline",
              room < ABREAST ? "border-t" : "border-l",
            )}
          >
            <div className="flex shrink-0 items-center gap-2 border-b border-hairline bg-bg1 pr-1 pl-3">
              <h2 className="min-w-0 flex-1 truncate text-meta text-fg2">{beside.title || beside.agent_name}</h2>
              <Button look="quiet" onClick={() => open(beside)}>
                <Trans>Open</Trans>
              </Button>
              <IconButton label={t`Close the split`} onClick={() => setSecond(undefined)}>
                <Icon name="close" size={14} />
              </IconButton>
            </div>
            <div className="min-h-0 flex-1">
              <Suspense fallback={<Skeleton label={t`Opening the terminal`} />}>
                <TerminalPane
                  key={beside.id}
                  sessionId={beside.id}
                  workspaceId={w.id}
                  quiet
                  idle={at === "first" && !talks}
                />
              </Suspense>
            </div>
          </section>
        )}
      </div>
      {starting && (
        <Suspense>
          <StartDialog
            workspace={w}
            onClose={() => setStarting(false)}
            onStarted={(s) => {
              setStarting(false);
              open(s);
            }}
          />
        </Suspense>
      )}
    </div>
  );
}

/** The session beside the one in front, remembered for each workspace. */
function useSecond(workspaceId: string) {
  const key = `panes.second.${workspaceId}`;
  const [second, set] = useState(() => recall(key, isString));
  const setSecond = (id: string | undefined) => {
    id === undefined ? forget(key) : remember(key, id);
    set(id);
  };
  return [second, setSecond] as const;
}
