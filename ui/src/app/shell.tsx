import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Outlet, useNavigate, useRouter } from "@tanstack/react-router";
import { Suspense, useEffect, useRef } from "react";
import { api, whenSignedOut, whenTeamClosed } from "@/api/client";
import { EventPump, EventsLink } from "@/api/events";
import { keys } from "@/api/queries";
import PaymentBanner from "@/billing/banner";
import LimitNotice from "@/costs/notice-bar";
import { useWaiting } from "@/inbox/inbox";
import Notifier from "@/inbox/notify/notifier";
import { listen } from "@/keys/keyboard";
import { useFirstInput } from "@/kit/first-input";
import { NotFoundPage } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { connection, tryNow } from "@/state/connection";
import { isTerminalDark, onThemeChange } from "@/state/look";
import { remember } from "@/state/remember";
import { useStore } from "@/state/store";
import { closedBy, useMe, useRefreshMe } from "@/state/team";
import { showAttention } from "@/state/title";
import { sidebarView } from "@/workspaces/sidebar-view";
import { Above } from "./above";
import { BottomBar } from "./bottom-bar";
import { ConnectionPill } from "./connection-pill";
import DoubtBanner from "./doubt-banner";
import { GlobalActions } from "./global-actions";
import { Header } from "./header";
import { Prover } from "./prover";
import { SequenceEcho } from "./sequence-echo";

const ComposerDialog = lazy(() => import("@/composer/dialog"));
const AddProjectDialog = lazy(() => import("@/projects/add-dialog"));
const TeamGate = lazy(() => import("./team-gate"));
const Keeper = lazy(() => import("./keeper"));
const Sidebar = lazy(() => import("./sidebar"));

const route = getRouteApi("/$team");

/** The app frame: header, sidebar, current page, and everything that lives as long as the document. */
export function Shell() {
  const { me, team } = route.useRouteContext();
  useSignedOut();
  useTeamClosed();
  if (!team) return <NotFoundPage />;
  const closed = closedBy(me, team);
  if (closed)
    return (
      <Suspense>
        <TeamGate key={team.slug} why={closed} />
      </Suspense>
    );
  return (
    <TeamShell
      key={team.slug}
      team={team.slug}
      costs={team.actions.includes("costs.view")}
      operator={me.user.operator}
    />
  );
}

function TeamShell({ team, costs, operator }: { team: string; costs: boolean; operator: boolean }) {
  const search = route.useSearch();
  const sidebar = useStore(sidebarView);
  const needs = useWaiting(team);
  const used = useFirstInput();

  useEffect(() => remember("team", team), [team]);
  useEffect(listen, []);
  useEffect(() => showAttention(needs), [needs]);
  useTeamEvents(team);
  useTerminalTheme();

  return (
    <div className="grid h-dvh grid-cols-1 grid-rows-[auto_minmax(0,1fr)_auto]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded-md focus:bg-bg1 focus:px-3 focus:py-1.5 focus:shadow-float"
      >
        <Trans>Skip to content</Trans>
      </a>
      <div>
        <Header />
        <Suspense>
          <DoubtBanner operator={operator} />
        </Suspense>
        {costs && (
          <Suspense>
            <PaymentBanner />
            <LimitNotice />
          </Suspense>
        )}
      </div>
      <div className="flex min-h-0">
        <Suspense fallback={sidebar.shown && <div className="bg-bg1 max-md:hidden" style={{ width: sidebar.width }} />}>
          <Sidebar />
        </Suspense>
        <main id="main" tabIndex={-1} className="min-h-0 min-w-0 flex-1 outline-none">
          <Outlet />
        </main>
      </div>
      <BottomBar />
      <GlobalActions />
      <Suspense>{used && <Keeper team={team} />}</Suspense>
      <Suspense>
        {search.new && <ComposerDialog key={search.new} projectId={search.new === "1" ? "" : search.new} />}
        {search.add && <AddProjectDialog kind={search.add} />}
      </Suspense>
      <ConnectionPill />
      <SequenceEcho />
      <Prover />
      <Above />
      <Suspense>
        <Notifier />
      </Suspense>
    </div>
  );
}

/** Goes to the login page when the login has ended. */
function useSignedOut(): void {
  const navigate = useNavigate();
  const client = useQueryClient();
  const router = useRouter();
  useEffect(() => {
    let leaving = false;
    whenSignedOut(() => {
      // Many calls may fail at the same time; after the first the address is already the login page.
      if (leaving) return;
      leaving = true;
      client.removeQueries({ queryKey: keys.me });
      void navigate({ to: "/login", search: { next: router.state.location.href } });
    });
    return () => whenSignedOut(() => {});
  }, [navigate, client, router]);
}

/** Shows the team gate when the team was suspended, or started to require a second factor, while the page was open. */
function useTeamClosed(): void {
  const refresh = useRefreshMe();
  const now = useRef(refresh);
  now.current = refresh;
  useEffect(() => {
    let looking = false;
    whenTeamClosed(() => {
      if (looking) return;
      looking = true;
      void now
        .current()
        .catch(() => {})
        .finally(() => {
          looking = false;
        });
    });
    return () => whenTeamClosed(() => {});
  }, []);
}

/** Tells the server whether terminals are light here: what starts before one is open is answered with its colours. */
function useTerminalTheme(): void {
  const me = useMe();
  const known = useRef(me.terminal_theme);
  useEffect(() => {
    const tell = () => {
      const terminal_theme = isTerminalDark() ? "dark" : "light";
      if (terminal_theme === known.current) return;
      known.current = terminal_theme;
      api.PATCH("/me", { body: { terminal_theme } }).catch(() => {}); // the next page that is loaded tells it
    };
    tell();
    return onThemeChange(tell);
  }, []);
}

/** Follows the team's events for as long as the page shows the team. */
function useTeamEvents(team: string): void {
  const client = useQueryClient();
  const refresh = useRefreshMe();
  const now = useRef(refresh);
  now.current = refresh;
  useEffect(() => {
    const pump = new EventPump(client, team);
    const link = new EventsLink({
      team,
      onEvent: (e) => pump.push(e),
      onGap: () => void client.invalidateQueries({ predicate: (q) => !q.queryKey.includes("diff") }),
      onState: (events) => connection.update((c) => ({ ...c, events })),
      // Loads the current user: a 401 leads to the login page, a suspended team to the team gate.
      onTrouble: () => void now.current().catch(() => {}),
    });
    link.start();
    tryNow.set(link.now);
    return () => {
      link.stop();
      pump.stop();
      tryNow.set(() => {});
    };
  }, [client, team]);
}
