import { t } from "@lingui/core/macro";
import { useIsMutating, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useEffect, useRef } from "react";
import type { Session, Workspace } from "@/api/client";
import { changesQuery, compareQuery, removeKey, sessionsQuery } from "@/api/queries";
import ChangesTab, { prefetchChanges } from "@/changes/tab";
import AskingElsewhere from "@/inbox/other-questions";
import { byBareKey, perform, useAction } from "@/keys/keyboard";
import { IconButton } from "@/kit/button";
import { Divider } from "@/kit/divider";
import { Icon } from "@/kit/icon";
import { NotFound } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { Pane, useWidth } from "@/kit/room";
import { Failure, Skeleton } from "@/kit/states";
import GitWorkHere from "@/merge/git-work-here";
import PortOffers from "@/sandboxes/port-offers";
import { ACTIVE_TAB } from "@/sessions/active-tab";
import { isShell } from "@/sessions/sessions";
import { type AgentPane as AgentPaneState, InAgentPane, inFront } from "@/sessions/shown-session";
import { isBoolean, recall } from "@/state/remember";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { useWorkspaceByKey } from "@/state/use-workspace";
import AgentPane from "./agent-pane";
import { PutAway } from "./archived";
import { Creation } from "./creation";
import { firstView, isOwn, rememberView, terminalTab } from "./first-tab";
import { WorkspaceHead } from "./head";
import { TWO_FROM, useAlone, useKept, useShare } from "./panes";
import { type AgentView, asSide, type Extra, type Side, type WorkspaceSearch } from "./search";
import { SideTabs, TimelineSwitch } from "./tabs";

const SIDE_PANE = "side-pane";

const FilesTab = lazy(() => import("@/editor/editor-screen").then((m) => ({ default: m.FilesTab })));
const HistoryTab = lazy(() => import("@/history/tab"));
const TimelineTab = lazy(() => import("@/timeline/tab"));
const BrowserTab = lazy(() => import("@/browser/tab"));
const DesktopTab = lazy(() => import("@/desktop/tab"));
const CodeTab = lazy(() => import("@/code/tab"));
const PreviewTab = lazy(() => import("@/sandboxes/preview-tab"));
const ArtifactsTab = lazy(() => import("@/artifacts/tab"));
const MergeTab = lazy(() => import("@/merge/tab"));
const MoveDialog = lazy(() => import("@/sandboxes/move-dialog"));
const PlaceDialog = lazy(() => import("@/sandboxes/dialog"));
const GraceBar = lazy(() => import("@/costs/grace-bar"));
const MachineBar = lazy(() => import("@/sandboxes/machine-bar"));
const RemoveDialog = lazy(() => import("./remove-dialog"));

const route = getRouteApi("/$team/w/$key");

/** One workspace in front: its head, its tabs, what is open. */
export function WorkspaceScreen() {
  const { key } = route.useParams();
  const team = useTeam();
  const found = useWorkspaceByKey(team.slug, key);
  useTitle(found.workspace?.name ?? key);
  if (found.workspace) return <Open key={found.workspace.id} workspace={found.workspace} />;
  if (found.pending) return <Skeleton rows={5} label={t`Loading the workspace`} />;
  if (found.error)
    return (
      <Failure className="m-4" what={t`The workspace could not be loaded.`} error={found.error} retry={found.retry} />
    );
  return <NotFound />;
}

function Open({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const closed = Boolean(w.deleted_at) || w.state === "archived";
  // Send no queries for an archived or deleted workspace: the server would refuse them.
  const leaving = useIsMutating({ mutationKey: removeKey(w.id) }) > 0;
  const alive = !closed && !leaving && (w.state === "ready" || w.state === "paused");
  const sessions = useQuery({ ...sessionsQuery(w.id), enabled: !closed || search.tab === "conversation" });
  // Kept fresh in whatever tab: its count is in the tab's name.
  const changes = useQuery({ ...changesQuery(w.id), enabled: alive });

  const [frame, width] = useWidth();
  const two = alive && (width ?? 0) >= TWO_FROM;
  const { kept, close } = useKept(w.id, search.tab, search.session);
  const named = asSide(search.tab);
  const [alone, setAlone] = useAlone();
  // What an address names is shown, also in a pane that was hidden.
  const hidden = two && alone === "agent" && !named;
  const side = two ? (hidden ? undefined : kept.side) : named;
  // The agent was called for.
  useEffect(() => {
    if (alone === "side" && !named) setAlone(undefined);
  });
  const front = two ? !(alone === "side" && named) : !named;
  const list = sessions.data ?? [];
  const asked: AgentPaneState = { view: kept.view ?? "terminal", session: kept.session, front };
  // A session that is named without a view may be a shell.
  if (!kept.view && list.some((s) => s.id === kept.session && isShell(s))) asked.view = "shell";
  const shown = inFront(list, asked);
  const pane: AgentPaneState = { ...asked, view: kept.view ?? (asked.view === "shell" ? "shell" : firstView(shown)) };
  useEffect(() => {
    if (shown && (search.tab === "terminal" || search.tab === "conversation")) rememberView(shown, search.tab);
  }, [shown, search.tab]);

  const client = useQueryClient();
  const read = alive && side !== "changes" && changes.data ? changes.data : undefined;
  const first = useRef(true);
  useEffect(() => {
    if (!read || read.items.length === 0) return;
    // While the agent keeps writing, nobody reads along: refetch once it has paused.
    const timer = setTimeout(() => prefetchChanges(client, w.id), first.current ? 700 : 2_500);
    first.current = false;
    return () => clearTimeout(timer);
  }, [client, w.id, read]);
  // Prefetch the changes of the address while the component loads.
  const compared = side === "changes" && alive ? `${search.from ?? "base"} ${search.to ?? "now"}` : undefined;
  useEffect(() => {
    if (!compared) return;
    const [from = "", to = ""] = compared.split(" ");
    void client.prefetchQuery(compareQuery(w.id, from, to, recall("diff.ignoreSpace", isBoolean) ?? false));
  }, [client, w.id, compared]);

  const toSide = (next: Side, before: WorkspaceSearch): WorkspaceSearch => ({
    ...before,
    tab: next,
    session: undefined,
    file: undefined,
    goto: undefined,
    find: undefined,
    naming: undefined,
    line: undefined,
    from: undefined,
    to: undefined,
    place: two ? before.place : undefined,
    dialog: undefined,
    q: undefined,
    at: undefined,
    when: undefined,
    item: undefined,
  });
  const toAgent = (view: AgentView, before: WorkspaceSearch): WorkspaceSearch => ({
    // Both panes are on the screen: what the other one shows stays as it is.
    ...(two ? before : toSide("changes", before)),
    tab: view === "terminal" ? terminalTab(shown) : view,
    session: agentOf(view, shown, kept.session),
    place: undefined,
    dialog: undefined,
  });
  const goSide = (next: Side) => {
    if (alone === "agent") setAlone(undefined);
    void navigate({ search: (s) => toSide(next, s) }).then(() => document.getElementById(SIDE_PANE)?.focus());
  };
  const goAgent = (view: AgentView) => {
    void navigate({ search: (s) => toAgent(view, s) }).then(() => {
      const tab = document.getElementById(ACTIVE_TAB);
      // A key alone leads to the terminal, not into it: more of a sentence may follow.
      if (byBareKey()) tab?.focus();
      else if (view !== "conversation") perform("terminal.focus");
    });
  };
  const closeExtra = (extra: Extra) => {
    const last = side === extra ? navigate({ search: (s) => toSide("changes", s) }) : Promise.resolve();
    void last.then(() => close(extra));
  };
  useAction("tab.terminal", () => goAgent("terminal"));
  useAction("tab.conversation", () => goAgent("conversation"));
  useAction("tab.changes", () => goSide("changes"));
  useAction("files.open", () => goSide("files"), alive);
  useAction("tab.merge", () => goSide("merge"));
  useAction("tab.shell", () => goAgent("shell"));
  useAction("tab.history", () => goSide("history"));
  useAction("tab.timeline", () => goSide("timeline"));
  useAction("tab.artifacts", () => goSide("artifacts"));
  useAction("tab.code", () => goSide("code"));
  useAction("tab.preview", () => goSide("preview"));
  useAction("tab.browser", () => goSide("browser"));
  useAction("tab.desktop", () => goSide("desktop"));
  const closeDialog = () => void navigate({ search: (s) => ({ ...s, dialog: undefined }) });

  const agent = (
    <AgentPane workspace={w} sessions={list} closed={closed} quiet={two && named !== undefined} single={!two}>
      {two && !hidden && (
        <IconButton label={t`Hide the pane beside the agent`} onClick={() => hide("side")}>
          <Icon name="hideRight" />
        </IconButton>
      )}
      {hidden && (
        <IconButton label={t`Show the pane beside the agent`} onClick={() => goSide(kept.side)}>
          <Icon name="split" />
        </IconButton>
      )}
    </AgentPane>
  );
  const hide = (which: "agent" | "side") => {
    if (which === "agent") {
      setAlone("side");
      void navigate({ search: (s) => ({ ...s, tab: kept.side }), replace: true });
    } else {
      setAlone("agent");
      void navigate({ search: (s) => toAgent(pane.view, s), replace: true });
    }
  };
  const tabs = (
    <SideTabs
      side={side}
      files={changes.data?.items.length ?? w.changes.files}
      extras={kept.extras}
      to={toSide}
      onOpen={goSide}
      onClose={closeExtra}
      onNear={(to) => to === "changes" && alive && side !== "changes" && prefetchChanges(client, w.id)}
      agent={two ? undefined : { to: (s) => toAgent(pane.view, s), needs: list.some((s) => s.state === "waiting") }}
    >
      {two && (
        <IconButton
          label={front ? t`Hide the agent` : t`Show the agent`}
          aria-pressed={!front}
          onClick={() => (front ? hide("agent") : setAlone(undefined))}
        >
          <Icon name={front ? "hideLeft" : "split"} />
        </IconButton>
      )}
    </SideTabs>
  );
  const sideView = (
    <>
      {(side === "timeline" || side === "history") && <TimelineSwitch side={side} to={toSide} />}
      <div className="min-h-0 flex-1">
        <Suspense fallback={<Skeleton label={t`Loading`} />}>
          {side === "timeline" ? (
            <TimelineTab workspace={w} linked={search.item} />
          ) : side === "history" ? (
            <HistoryTab workspace={w} />
          ) : side === "artifacts" ? (
            <ArtifactsTab
              key={search.item}
              workspace={w}
              linked={search.item?.startsWith("art_") ? search.item : undefined}
            />
          ) : side === "code" ? (
            <CodeTab workspace={w} canRun={alive && !closed} linked={search.item} />
          ) : closed ? (
            <PutAway workspace={w} />
          ) : !alive ? (
            <Creation workspace={w} />
          ) : side === "browser" ? (
            <BrowserTab workspace={w} canUse={team.can("terminal.type")} />
          ) : side === "preview" ? (
            <PreviewTab workspace={w} />
          ) : side === "desktop" ? (
            <DesktopTab key={w.id} workspace={w} canUse={team.can("terminal.type")} />
          ) : side === "merge" ? (
            <MergeTab workspace={w} />
          ) : side === "files" ? (
            <FilesTab
              workspace={w}
              at={{ path: search.file, goto: search.goto, find: search.find, naming: search.naming }}
              go={({ path, ...at }) =>
                void navigate({
                  search: (s) => ({ ...s, tab: "files", file: path, goto: at.goto, find: at.find, naming: at.naming }),
                })
              }
            />
          ) : (
            <ChangesTab workspace={w} />
          )}
        </Suspense>
      </div>
    </>
  );

  return (
    <InAgentPane value={pane}>
      <div className="flex h-full min-h-0 flex-col">
        <WorkspaceHead workspace={w} sessions={list} side={side} />
        {!two && tabs}
        {w.grace && !closed && (
          <Suspense>
            <GraceBar grace={w.grace} />
          </Suspense>
        )}
        {w.runner_id && !closed && (
          <Suspense>
            <MachineBar workspace={w} machineId={w.runner_id} />
          </Suspense>
        )}
        <Suspense>
          <AskingElsewhere sessions={list} shown={front ? shown?.id : undefined} />
        </Suspense>
        {alive && !closed && side !== "preview" && (
          <Suspense>
            <PortOffers key={w.id} workspace={w} onPreview={() => goSide("preview")} />
          </Suspense>
        )}
        {alive && side !== "merge" && (
          <Suspense>
            <GitWorkHere workspace={w} />
          </Suspense>
        )}
        <div ref={frame} className="flex min-h-0 flex-1">
          {width === undefined ? null : sessions.isLoading ? (
            // Without the sessions it would offer to start one.
            <Skeleton label={t`Loading`} />
          ) : leaving ? (
            <Skeleton label={t`Archiving`} />
          ) : (
            <Panes
              width={width}
              agent={front && (alive || pane.view === "conversation") ? agent : undefined}
              side={
                front && !alive && pane.view !== "conversation" ? (
                  closed ? (
                    <PutAway workspace={w} />
                  ) : (
                    <Creation workspace={w} />
                  )
                ) : side ? (
                  <>
                    {two && tabs}
                    {sideView}
                  </>
                ) : undefined
              }
            />
          )}
        </div>
        <Suspense>
          {search.dialog === "place" && !closed && <PlaceDialog workspace={w} onClose={closeDialog} />}
          {search.dialog === "move" && !closed && <MoveDialog workspace={w} onClose={closeDialog} />}
          {(search.dialog === "archive" || search.dialog === "delete") && (
            <RemoveDialog workspace={w} how={search.dialog} onClose={closeDialog} />
          )}
        </Suspense>
      </div>
    </InAgentPane>
  );
}

/** The session an address names for a view of the agent's pane: an agent stays in front, shells are chosen anew. */
function agentOf(view: AgentView, shown: Session | undefined, chosen: string | undefined): string | undefined {
  if (!shown || isShell(shown) !== (view === "shell")) return undefined;
  return isOwn(shown) ? shown.id : chosen;
}

/** The agent and what is beside it, or the one of them that is shown. */
function Panes({ width, agent, side }: { width: number; agent?: ReactNode; side?: ReactNode }) {
  const { share, least, set, reset } = useShare(width);
  const both = agent !== undefined && side !== undefined;
  return (
    <>
      {agent && (
        <Pane
          key="agent"
          role="region"
          aria-label={t`Agent`}
          data-keys="conversation"
          style={both ? { flexBasis: `${share * 100}%` } : undefined}
          className={both ? "shrink-0 grow-0" : "flex-1"}
        >
          {agent}
        </Pane>
      )}
      {both && (
        <Divider
          label={t`Width of the agent's pane`}
          value={share * 100}
          min={least * 100}
          max={(1 - least) * 100}
          step={2}
          valueAt={(x, width) => (x / width) * 100}
          onValue={(percent) => set(percent / 100)}
          onReset={reset}
        />
      )}
      {side && (
        <Pane
          key="side"
          id={SIDE_PANE}
          tabIndex={-1}
          role="region"
          aria-label={t`Side pane`}
          data-keys="changes"
          className="flex min-h-0 flex-1 flex-col outline-none"
        >
          {side}
        </Pane>
      )}
    </>
  );
}
