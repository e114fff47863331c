import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import type { Me } from "@/api/client";
import { ApiError } from "@/api/problem";
import { meQuery, setupQuery } from "@/api/queries";
import { isDay, isMonth, USAGE_GROUPS, type UsageGroup } from "@/costs/usage-search";
import { CrashPage, NotFoundPage } from "@/kit/pages";
import { part } from "@/kit/part";
import { isString, recall } from "@/state/remember";
import { queryClient } from "./query-client";

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: NotFoundPage, errorComponent: CrashPage });

/** Who is signed in, or a way to the page that signs in. */
async function signedIn(next: string): Promise<Me> {
  try {
    return await queryClient.ensureQueryData(meQuery());
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const { needed } = await queryClient.fetchQuery(setupQuery());
    if (needed) throw redirect({ to: "/setup" });
    throw redirect({ to: "/login", search: next === "/" ? {} : { next } });
  }
}

const indexRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: async () => {
    const me = await signedIn("/");
    const last = recall("team", isString);
    const team = me.teams.find((t) => t.slug === last) ?? me.teams[0];
    if (team) throw redirect({ to: "/$team", params: { team: team.slug } });
  },
  component: lazyRouteComponent(() => part(() => import("@/people/no-team-screen")), "NoTeamScreen"),
});

const whole = (v: unknown): number | undefined =>
  Number.isSafeInteger(Number(v ?? Number.NaN)) ? Number(v) : undefined;
const text = (v: unknown): string | undefined => (typeof v === "string" && v !== "" ? v : undefined);

const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: lazyRouteComponent(() => part(() => import("@/signin/setup-screen")), "SetupScreen"),
});

interface LoginSearch {
  next?: string;
  /** A provider vouched for the first step, and a second one is wanted. */
  step?: "second";
  error?: string;
  provider?: string;
}

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (s: Record<string, unknown>): LoginSearch => ({
    next: text(s.next),
    step: s.step === "second" ? "second" : undefined,
    error: text(s.error),
    provider: text(s.provider),
  }),
  component: lazyRouteComponent(() => part(() => import("@/signin/login-screen")), "LoginScreen"),
});

const resetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/reset",
  component: lazyRouteComponent(() => part(() => import("@/signin/reset-screen")), "ResetScreen"),
});

const joinRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/join",
  component: lazyRouteComponent(() => part(() => import("@/people/join-screen")), "JoinScreen"),
});

/** What a link to watch a session leads to; the link's secret stands behind the #. */
const watchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/watch",
  validateSearch: (s: Record<string, unknown>): { link?: string } => ({ link: text(s.link) }),
  component: lazyRouteComponent(() => part(() => import("@/terminal/watch-screen")), "WatchScreen"),
});

export interface TeamSearch {
  /** The dialog for a new workspace is open; the value is a project id, or "1" for none chosen. */
  new?: string;
  /** The dialog that adds a project is open. */
  add?: Adding;
}

export type Adding = "url" | "folder" | "machine";

const teamRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/$team",
  validateSearch: (s: Record<string, unknown>): TeamSearch => ({
    new: text(s.new) ?? (s.new === 1 ? "1" : undefined),
    add: s.add === "url" || s.add === "folder" || s.add === "machine" ? s.add : undefined,
  }),
  beforeLoad: async ({ params, location }) => {
    const me = await signedIn(location.href);
    return { me, team: me.teams.find((t) => t.slug === params.team) };
  },
  component: lazyRouteComponent(() => part(() => import("./shell")), "Shell"),
});

const teamIndexRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/",
  beforeLoad: ({ params }) => {
    // A phone is for answering; a desk for work.
    const to = matchMedia("(max-width: 767px)").matches ? "/$team/inbox" : "/$team/w";
    throw redirect({ to, params, replace: true });
  },
});

const inboxRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/inbox",
  component: lazyRouteComponent(() => part(() => import("@/inbox/inbox-screen")), "InboxScreen"),
});

const workspacesRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w",
  validateSearch: (s: Record<string, unknown>): { show?: "archived" | "trash" } => ({
    show: s.show === "archived" || s.show === "trash" ? s.show : undefined,
  }),
  component: lazyRouteComponent(() => part(() => import("@/workspaces/workspaces-screen")), "WorkspacesScreen"),
});

/** The trash is a part of the workspaces' page; its short address leads there. */
const trashRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/trash",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/$team/w", params, search: { show: "trash" }, replace: true });
  },
});

export type Tab = "terminal" | "conversation" | "changes" | "merge" | "shell" | "history" | "timeline";

const TABS = ["conversation", "changes", "merge", "shell", "history", "timeline"] as const;

const DIALOGS = ["archive", "delete", "place", "move"] as const;
export type WorkspaceDialog = (typeof DIALOGS)[number];

export interface WorkspaceSearch {
  tab?: Exclude<Tab, "terminal">;
  session?: string;
  file?: string;
  /** Lines of the file: "new12", "old3-7". */
  line?: string;
  /** In the changes: the states that are compared, as the API names them; without them the base and now. */
  from?: string;
  to?: string;
  dialog?: WorkspaceDialog;
  /** A place in the conversation. */
  place?: number;
  /** In the history: an offset of the output. */
  at?: number;
  /** On a phone: the terminal itself instead of what it says. */
  live?: true;
  /** In the history: what is searched, and the time (ms) of the output that is shown. */
  q?: string;
  when?: number;
}

const workspaceRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w/$key",
  validateSearch: (s: Record<string, unknown>): WorkspaceSearch => ({
    tab: s.dialog === "merge" ? "merge" : TABS.find((t) => t === (s.tab === "activity" ? "timeline" : s.tab)),
    session: text(s.session),
    file: text(s.file),
    line: text(s.line),
    from: text(s.from),
    to: text(s.to),
    place: Number.isSafeInteger(Number(s.place)) && Number(s.place) > 0 ? Number(s.place) : undefined,
    dialog: DIALOGS.find((d) => d === s.dialog),
    live: s.live === true || s.live === "1" || s.live === 1 ? true : undefined,
    q: s.q === undefined ? undefined : String(s.q).slice(0, 1000) || undefined,
    at: whole(s.at),
    when: whole(s.when),
  }),
  component: lazyRouteComponent(() => part(() => import("@/workspaces/workspace-screen")), "WorkspaceScreen"),
});

const editRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w/$key/edit",
  validateSearch: (s: Record<string, unknown>): { path?: string; naming?: true } => ({
    path: text(s.path),
    naming: s.naming === true || undefined,
  }),
  component: lazyRouteComponent(() => part(() => import("@/editor/editor-screen")), "EditorScreen"),
});

const runsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/runs",
  component: lazyRouteComponent(() => part(() => import("@/runs/runs-screen")), "RunsScreen"),
});

const runRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/runs/$run",
  component: lazyRouteComponent(() => part(() => import("@/runs/run-screen")), "RunScreen"),
});

const projectsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/p",
  component: lazyRouteComponent(() => part(() => import("@/projects/projects-screen")), "ProjectsScreen"),
});

const projectRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/p/$project",
  component: lazyRouteComponent(() => part(() => import("@/projects/project-screen")), "ProjectScreen"),
});

const machinesRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/machines",
  validateSearch: (s: Record<string, unknown>): { connect?: true } => ({
    connect: s.connect === true || s.connect === "1" || s.connect === 1 ? true : undefined,
  }),
  component: lazyRouteComponent(() => part(() => import("@/machines/machines-screen")), "MachinesScreen"),
});

const machineRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/machines/$machine",
  component: lazyRouteComponent(() => part(() => import("@/machines/machine-screen")), "MachineScreen"),
});

/** What a page of usage shows; absent is this month, by day, in cents. */
export interface UsageSearch {
  month?: string;
  day?: string;
  by?: UsageGroup;
  exact?: true;
}

const usageSearch = (s: Record<string, unknown>): UsageSearch => ({
  month: isMonth(s.month) ? s.month : undefined,
  day: isDay(s.day) ? s.day : undefined,
  by: USAGE_GROUPS.find((g) => g === s.by),
  exact: s.exact === true || s.exact === "1" || s.exact === 1 ? true : undefined,
});

const usageRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/usage",
  validateSearch: usageSearch,
  component: lazyRouteComponent(() => part(() => import("@/costs/usage-screen")), "UsageScreen"),
});

export const SECTIONS = [
  "profile",
  "security",
  "notifications",
  "appearance",
  "agents",
  "tokens",
  "secrets",
  "members",
  "team",
  "disk",
  "team-agents",
  "team-secrets",
  "budget",
  "quotas",
  "billing",
  "links",
  "places",
  "models",
  "audit",
  "users",
  "teams",
  "server-audit",
  "server-usage",
  "plans",
  "prices",
  "payments",
  "metrics",
  "gateway",
  "about",
] as const;
export type Section = (typeof SECTIONS)[number];

interface SettingsSearch extends UsageSearch {
  error?: string;
  provider?: string;
  paid?: string;
  canceled?: string;
  managed?: string;
}

const settingsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/settings/{-$section}",
  // What became of a way to a provider whose account was to be linked; what the server's usage shows.
  // And of a way to the payment service: a payment's id here.
  validateSearch: (s: Record<string, unknown>): SettingsSearch => ({
    error: text(s.error),
    provider: text(s.provider),
    paid: text(s.paid),
    canceled: text(s.canceled),
    managed: s.managed === undefined ? undefined : "1",
    ...usageSearch(s),
  }),
  component: lazyRouteComponent(() => part(() => import("@/settings/settings-screen")), "SettingsScreen"),
});

const routeTree = rootRoute.addChildren([
  indexRoute,
  setupRoute,
  loginRoute,
  resetRoute,
  joinRoute,
  watchRoute,
  teamRoute.addChildren([
    teamIndexRoute,
    inboxRoute,
    workspacesRoute,
    trashRoute,
    workspaceRoute,
    editRoute,
    runsRoute,
    runRoute,
    projectsRoute,
    projectRoute,
    machinesRoute,
    machineRoute,
    usageRoute,
    settingsRoute,
  ]),
]);

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultErrorComponent: CrashPage,
  defaultNotFoundComponent: NotFoundPage,
  defaultPendingMs: 200,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
