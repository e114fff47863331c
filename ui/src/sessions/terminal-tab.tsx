import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { SETUP, SHELL } from "@/agents/built-in";
import type { Session, Workspace } from "@/api/client";
import { keys, sessionsQuery } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { Button, IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Shape } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { serveProblem } from "@/sandboxes/problem";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import FirstStart, { useFirstStart } from "./first-start";
import { SessionForm } from "./session-form";
import { isShell, sessionMark } from "./sessions";
import { useShownSession } from "./shown-session";
import { startSession } from "./start";
import { StartDialog } from "./start-dialog";

const TerminalPane = lazy(() => import("./terminal-pane"));
const SubagentTree = lazy(() => import("./subagent-tree"));
const AnswerMode = lazy(() => import("./answer-mode"));
const PlaceStrip = lazy(() => import("@/sandboxes/strip"));
const PlaceFirst = lazy(() => import("@/sandboxes/place-first"));

/** The sessions of a workspace, agents or shells, one of them in front. */
export default function TerminalTab({ workspace: w, kind }: { workspace: Workspace; kind: "agent" | "shell" }) {
  const team = useTeam();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const all = useQuery(sessionsQuery(w.id));
  const [starting, setStarting] = useState(false);
  const sessions = (all.data ?? [])
    .filter((s) => isShell(s) === (kind === "shell"))
    .sort((a, b) => a.started_at - b.started_at);
  const shown = useShownSession(all.data ?? []);
  const may = team.can("terminal.type");
  const shell = useStartShell(w.id);
  // A shell belongs to the other tab.
  const open = (s: Session) =>
    void navigate({ search: (x) => ({ ...x, tab: isShell(s) ? "shell" : undefined, session: s.id }) });
  const add = () => (kind === "shell" ? shell.mutate() : setStarting(true));
  useAction("session.new", add, may);

  const onlySetup = sessions.length > 0 && sessions.every((s) => s.agent === SETUP);
  return (
    <div className="flex h-full min-h-0 flex-col">
      {all.isPending ? (
        <Skeleton label="Loading the sessions" />
      ) : all.isError && !all.data ? (
        <Failure
          className="m-4"
          what="The sessions could not be loaded."
          error={all.error}
          retry={() => void all.refetch()}
        />
      ) : sessions.length === 0 || (onlySetup && shown?.agent !== SETUP) ? (
        <Suspense fallback={<Skeleton label="Loading the place" />}>
          <PlaceFirst workspace={w}>
            <NoSessions workspace={w} kind={kind} may={may} shell={shell} onStarted={open} />
          </PlaceFirst>
        </Suspense>
      ) : (
        <>
          <SessionStrip
            sessions={sessions}
            shown={shown}
            onAdd={may ? add : undefined}
            busy={shell.isPending}
            kind={kind}
          />
          <Suspense>
            <PlaceStrip workspace={w} />
            {shown && !isShell(shown) && <SubagentTree session={shown} />}
          </Suspense>
          {shown && (
            <div className="min-h-0 flex-1">
              {onlySetup && may ? (
                <div className="grid h-full min-h-0 grid-rows-[minmax(0,1fr)_auto]">
                  <Pane session={shown} />
                  <div className="border-t border-hairline bg-bg1 p-3">
                    <Button look="primary" keys="o s" onClick={add}>
                      Start a session
                    </Button>
                  </div>
                </div>
              ) : (
                <Pane session={shown} />
              )}
            </div>
          )}
        </>
      )}
      {starting && (
        <StartDialog
          workspace={w}
          onClose={() => setStarting(false)}
          onStarted={(s) => {
            setStarting(false);
            open(s);
          }}
        />
      )}
    </div>
  );
}

function Pane({ session: s }: { session: Session }) {
  const phone = useMedia("(max-width: 767px)");
  const { live } = useSearch({ from: "/$team/w/$key" });
  if (phone && !live && !isShell(s))
    return (
      <Suspense fallback={<Skeleton label="Opening the session" />}>
        <AnswerMode key={s.id} session={s} />
      </Suspense>
    );
  const pane = (
    <Suspense fallback={<Skeleton label="Opening the terminal" />}>
      <TerminalPane key={s.id} sessionId={s.id} workspaceId={s.workspace_id} />
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
        Back to the last lines
      </Link>
      {pane}
    </div>
  );
}

/** Opens a shell; its tab shows it at once. */
function useStartShell(workspaceId: string) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const mutation = useMutation({
    mutationFn: () => startSession(workspaceId, { agent: SHELL }),
    onSuccess: async (s) => {
      client.setQueryData<Session[]>(keys.sessions(workspaceId), (list) => [
        s,
        ...(list ?? []).filter((x) => x.id !== s.id),
      ]);
      void client.invalidateQueries({ queryKey: keys.sessions(workspaceId) });
      await navigate({ search: (x) => ({ ...x, tab: "shell", session: s.id }) });
    },
    onError: (error) =>
      serveProblem(error) || toastError("The shell could not be opened", error, () => mutation.mutate()),
  });
  return mutation;
}

interface NoneProps {
  workspace: Workspace;
  kind: "agent" | "shell";
  may: boolean;
  shell: ReturnType<typeof useStartShell>;
  onStarted: (s: Session) => void;
}

function NoSessions({ workspace: w, kind, may, shell, onStarted }: NoneProps) {
  const first = useFirstStart(w.id);
  if (first) return <FirstStart workspace={w} />;
  if (!may) return <Empty title="No session yet">You can watch agents here once someone starts one.</Empty>;
  if (kind === "shell")
    return (
      <Empty
        title="No shell open"
        action={
          <Button look="primary" keys="o s" busy={shell.isPending && "Opening"} onClick={() => shell.mutate()}>
            Open a shell
          </Button>
        }
      >
        A shell in the workspace's folder, alongside the agent.
      </Empty>
    );
  return (
    <div className="h-full overflow-y-auto p-4 md:p-6">
      <div className="max-w-2xl">
        <h2 className="mb-3 text-title font-semibold">Start a session</h2>
        <SessionForm workspace={w} onStarted={onStarted} />
      </div>
    </div>
  );
}

/** The name of a session's agent, with a number where it runs more than once. */
function numbered(sessions: readonly Session[], i: number): string {
  const name = sessions[i]!.agent_name;
  const same = sessions.filter((s) => s.agent_name === name);
  return same.length > 1 ? `${name} ${same.indexOf(sessions[i]!) + 1}` : name;
}

interface StripProps {
  sessions: Session[];
  shown: Session | undefined;
  onAdd: (() => void) | undefined;
  busy: boolean;
  kind: "agent" | "shell";
}

/** With many sessions the strip scrolls: the one in front must not be out of sight. */
const bringIntoView = (el: HTMLElement | null): void => el?.scrollIntoView({ block: "nearest", inline: "nearest" });

function SessionStrip({ sessions, shown, onAdd, busy, kind }: StripProps) {
  return (
    <nav
      aria-label={kind === "shell" ? "Shells" : "Sessions"}
      className="squeezed:hidden flex items-center gap-1 overflow-x-auto border-b border-hairline bg-bg0 px-3 py-1"
    >
      {sessions.map((s, i) => {
        const mark = sessionMark(s);
        return (
          <Link
            key={s.id}
            to="."
            search={(x) => ({ ...x, session: s.id })}
            ref={s.id === shown?.id ? bringIntoView : undefined}
            aria-current={s.id === shown?.id ? "page" : undefined}
            title={s.title || s.agent_name}
            className="flex min-h-6 max-w-60 shrink-0 items-center gap-1.5 rounded-sm px-2 text-meta text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg pointer-coarse:min-h-11"
          >
            <Shape kind={mark.mark} />
            <span className="truncate">
              {kind === "shell" ? `Shell ${i + 1}` : numbered(sessions, i)}
              {s.title && s.title !== s.agent_name && <span className="text-fg3"> {s.title}</span>}
            </span>
            <span className="sr-only">{mark.word}</span>
          </Link>
        );
      })}
      {onAdd && (
        <IconButton
          label={kind === "shell" ? "Open another shell" : "Start another session"}
          onClick={onAdd}
          disabled={busy}
          className="h-6! w-6! pointer-coarse:h-11! pointer-coarse:w-11!"
        >
          <Icon name="plus" size={14} />
        </IconButton>
      )}
    </nav>
  );
}
