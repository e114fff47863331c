import { type QueryClient, useIsMutating, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Suspense, useEffect, useRef } from "react";
import type { Workspace } from "@/api/client";
import { changesQuery, compareQuery, removeKey, sessionsQuery } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { NotFound } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { preloadable } from "@/kit/preloadable";
import { Failure, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { useShownSession } from "@/sessions/shown-session";
import { isBoolean, recall } from "@/state/remember";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { useWorkspaceByKey } from "@/state/use-workspace";
import { PutAway } from "./archived";
import { Creation } from "./creation";
import { firstTab, isOwn, rememberTab, terminalTab } from "./first-tab";
import { WorkspaceHead } from "./head";
import { asBeside, type Beside, type Tab } from "./search";
import { WorkspaceTabs } from "./tabs";

const TerminalTab = lazy(() => import("@/sessions/terminal-tab"));
const ConversationTab = lazy(() => import("@/conversation/tab"));
const { Part: ChangesTab, preload: preloadChanges } = preloadable(() => import("@/changes/tab"));
/** Fetches what the changes begin with, and what shows them. */
const readChangesAhead = (client: QueryClient, id: string) =>
  void import("@/changes/tab").then((m) => m.prefetchChanges(client, id)).catch(() => {}); // showing them tells what is wrong
const AskingElsewhere = lazy(() => import("@/inbox/other-questions"));
const HistoryTab = lazy(() => import("@/history/tab"));
const TimelineTab = lazy(() => import("@/timeline/tab"));
const BrowserTab = lazy(() => import("@/browser/tab"));
const DesktopTab = lazy(() => import("@/desktop/tab"));
const CodeTab = lazy(() => import("@/code/tab"));
const PortOffers = lazy(() => import("@/sandboxes/port-offers"));
const PreviewTab = lazy(() => import("@/sandboxes/preview-tab"));
const ArtifactsTab = lazy(() => import("@/artifacts/tab"));
const GitWorkHere = lazy(() => import("@/merge/git-work-here"));
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
  if (found.pending) return <Skeleton rows={5} label="Loading the workspace" />;
  if (found.error)
    return (
      <Failure className="m-4" what="The workspace could not be loaded." error={found.error} retry={found.retry} />
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

  const shown = useShownSession(sessions.data ?? []);
  const tab: Tab = search.tab ?? firstTab(shown);
  useEffect(() => {
    if (shown && (search.tab === "terminal" || search.tab === "conversation")) rememberTab(shown, search.tab);
  }, [shown, search.tab]);

  // The changes are what most people open next: what shows them comes while nothing else is done.
  useEffect(() => {
    const timer = setTimeout(preloadChanges, 500);
    return () => clearTimeout(timer);
  }, []);
  const client = useQueryClient();
  const read = alive && tab !== "changes" && changes.data ? changes.data : undefined;
  const first = useRef(true);
  useEffect(() => {
    if (!read || read.items.length === 0) return;
    // While the agent keeps writing, nobody reads along: refetch once it has paused.
    const timer = setTimeout(() => readChangesAhead(client, w.id), first.current ? 700 : 2_500);
    first.current = false;
    return () => clearTimeout(timer);
  }, [client, w.id, read]);
  // Prefetch the changes of the address while the component loads.
  const compared = tab === "changes" && alive ? `${search.from ?? "base"} ${search.to ?? "now"}` : undefined;
  useEffect(() => {
    if (!compared) return;
    const [from = "", to = ""] = compared.split(" ");
    void client.prefetchQuery(compareQuery(w.id, from, to, recall("diff.ignoreSpace", isBoolean) ?? false));
  }, [client, w.id, compared]);

  const go = (next: Tab) =>
    void navigate({
      search: (s) => ({
        ...s,
        tab: next === "terminal" ? terminalTab(shown) : next,
        session: undefined,
        file: undefined,
        line: undefined,
        from: undefined,
        to: undefined,
        place: undefined,
        q: undefined,
        at: undefined,
        when: undefined,
        item: undefined,
      }),
    });
  useAction("tab.terminal", () => go("terminal"));
  useAction("tab.conversation", () => go("conversation"));
  useAction("tab.changes", () => go("changes"));
  useAction("files.open", () => void navigate({ to: "/$team/w/$key/edit", search: {} }), alive);
  useAction("tab.merge", () => go("merge"));
  useAction("tab.shell", () => go("shell"));
  useAction("tab.history", () => go("history"));
  useAction("tab.timeline", () => go("timeline"));
  useAction("tab.artifacts", () => go("artifacts"));
  useAction("tab.code", () => go("code"));
  useAction("tab.preview", () => go("preview"));
  useAction("tab.browser", () => go("browser"));
  useAction("tab.desktop", () => go("desktop"));
  const wide = useMedia("(min-width: 1024px)");
  const besides = tab === "terminal" || tab === "shell" || tab === "conversation";
  const beside = wide && alive && besides ? search.beside : undefined;
  const splits = wide && alive ? asBeside(tab) : undefined;
  const split = beside
    ? { label: `Close the ${beside}`, onClick: () => void navigate({ search: (s) => ({ ...s, beside: undefined }) }) }
    : splits && {
        label: "Beside the terminal",
        onClick: () => void navigate({ search: (s) => ({ ...s, tab: terminalTab(shown), beside: splits }) }),
      };
  const view = (which: Beside) =>
    which === "browser" ? (
      <BrowserTab workspace={w} canUse={team.can("terminal.type")} />
    ) : (
      <PreviewTab workspace={w} />
    );
  const closeDialog = () => void navigate({ search: (s) => ({ ...s, dialog: undefined }) });

  return (
    <div className="flex h-full min-h-0 flex-col">
      <WorkspaceHead workspace={w} sessions={sessions.data ?? []} />
      <WorkspaceTabs
        tab={tab}
        files={changes.data?.items.length ?? w.changes.files}
        sessions={sessions.data ?? []}
        shown={shown}
        split={split}
        onNear={(to) => to === "changes" && alive && tab !== "changes" && readChangesAhead(client, w.id)}
      />
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
        <AskingElsewhere
          sessions={sessions.data ?? []}
          shown={tab === "terminal" || (tab === "conversation" && isOwn(shown)) ? shown?.id : undefined}
        />
      </Suspense>
      {alive && !closed && tab !== "preview" && beside !== "preview" && (
        <Suspense>
          <PortOffers key={w.id} workspace={w} onPreview={() => go("preview")} />
        </Suspense>
      )}
      {alive && tab !== "merge" && (
        <Suspense>
          <GitWorkHere workspace={w} />
        </Suspense>
      )}
      <div className="flex min-h-0 flex-1">
        <div className="min-w-0 flex-1">
          <Suspense fallback={<Skeleton label="Loading" />}>
            {leaving ? (
              <Skeleton label="Archiving" />
            ) : tab === "timeline" ? (
              <TimelineTab workspace={w} />
            ) : tab === "artifacts" ? (
              <ArtifactsTab
                key={search.item}
                workspace={w}
                linked={search.item?.startsWith("art_") ? search.item : undefined}
              />
            ) : tab === "code" ? (
              <CodeTab workspace={w} canRun={alive && !closed} linked={search.item} />
            ) : tab === "conversation" ? (
              <ConversationTab workspace={w} />
            ) : tab === "history" ? (
              <HistoryTab workspace={w} />
            ) : closed ? (
              <PutAway workspace={w} />
            ) : !alive ? (
              <Creation workspace={w} />
            ) : tab === "browser" || tab === "preview" ? (
              view(tab)
            ) : tab === "desktop" ? (
              <DesktopTab key={w.id} workspace={w} canUse={team.can("terminal.type")} />
            ) : tab === "changes" ? (
              <ChangesTab workspace={w} />
            ) : tab === "merge" ? (
              <MergeTab workspace={w} />
            ) : (
              <TerminalTab key={tab} workspace={w} kind={tab === "shell" ? "shell" : "agent"} />
            )}
            {search.dialog === "place" && !closed && <PlaceDialog workspace={w} onClose={closeDialog} />}
            {search.dialog === "move" && !closed && <MoveDialog workspace={w} onClose={closeDialog} />}
            {(search.dialog === "archive" || search.dialog === "delete") && (
              <RemoveDialog workspace={w} how={search.dialog} onClose={closeDialog} />
            )}
          </Suspense>
        </div>
        {beside && (
          <div className="w-1/2 border-l border-hairline">
            <Suspense fallback={<Skeleton label="Loading" />}>{view(beside)}</Suspense>
          </div>
        )}
      </div>
    </div>
  );
}
