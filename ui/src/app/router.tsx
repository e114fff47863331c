import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import type { Me } from "@/api/client";
import { ApiError } from "@/api/problem";
import { meQuery, setupQuery } from "@/api/queries";
import { type UsageSearch, usageSearch } from "@/costs/usage-search";
import { CrashPage, NotFoundPage } from "@/kit/pages";
import { part } from "@/kit/part";
import type { Adding } from "@/projects/add-dialog";
import { text } from "@/state/address";
import { isString, recall } from "@/state/remember";
import { overviewSearch, workspaceSearch } from "@/workspaces/search";
import { InboxPage } from "./inbox-page";
import { OfflinePage } from "./offline-page";
import { queryClient } from "./query-client";
import { Shell } from "./shell";

/** A page that could not be shown: without a connection, or for another reason. */
function FailedPage(props: ErrorComponentProps) {
  if (!(props.error instanceof ApiError) || props.error.status !== 0) return <CrashPage {...props} />;
  const retry = () => {
    props.reset();
    void router.invalidate();
  };
  return <OfflinePage retry={retry} />;
}

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: NotFoundPage, errorComponent: FailedPage });

/** Loads the signed-in user, or redirects to the login page. */
async function signedIn(next: string): Promise<Me> {
  try {
    // Without a network it fails at once, and the page says so, instead of waiting for one.
    return await queryClient.ensureQueryData({ ...meQuery(), networkMode: "always", retry: false });
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

const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: lazyRouteComponent(() => part(() => import("@/signin/setup-screen")), "SetupScreen"),
});

interface LoginSearch {
  next?: string;
  /** A provider confirmed the first factor; the second is required. */
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

const confirmRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/confirm",
  validateSearch: (s: Record<string, unknown>): { next?: string; second?: "1" } => ({
    next: text(s.next),
    second: s.second === undefined ? undefined : "1",
  }),
  beforeLoad: ({ search }) => signedIn(search.next ?? "/"),
  component: lazyRouteComponent(() => part(() => import("@/signin/confirm-screen")), "ConfirmScreen"),
});

const resetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/reset",
  component: lazyRouteComponent(() => part(() => import("@/signin/reset-screen")), "ResetScreen"),
});

const emailRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/email",
  component: lazyRouteComponent(() => part(() => import("@/signin/email-screen")), "EmailScreen"),
});

const joinRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/join",
  component: lazyRouteComponent(() => part(() => import("@/people/join-screen")), "JoinScreen"),
});

/** Target of a share link; its secret is in the URL fragment. */
const watchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/watch",
  validateSearch: (s: Record<string, unknown>): { link?: string } => ({ link: text(s.link) }),
  component: lazyRouteComponent(() => part(() => import("@/terminal/watch-screen")), "WatchScreen"),
});

/** The public demo, for people who are not signed in. */
const demoRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/demo",
  component: lazyRouteComponent(() => part(() => import("@/standalone/demo-screen")), "DemoScreen"),
});

export interface TeamSearch {
  /** The composer of a new workspace is open; the value is a project id, or "1" for none chosen. */
  new?: string;
  /** The dialog that adds a project is open. */
  add?: Adding;
}

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
  component: Shell,
});

const teamIndexRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/",
  beforeLoad: ({ params }) => {
    // Phones start at the inbox, desktops at the workspaces.
    const to = matchMedia("(max-width: 767px)").matches ? "/$team/inbox" : "/$team/w";
    throw redirect({ to, params, replace: true });
  },
});

const inboxRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/inbox",
  component: InboxPage,
});

const workspacesRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w",
  validateSearch: overviewSearch,
  component: lazyRouteComponent(() => part(() => import("@/workspaces/workspaces-screen")), "WorkspacesScreen"),
});

/** The trash is part of the workspaces page; this short address redirects there. */
const trashRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/trash",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/$team/w", params, search: { show: "trash" }, replace: true });
  },
});

const workspaceRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w/$key",
  validateSearch: workspaceSearch,
  component: lazyRouteComponent(() => part(() => import("@/workspaces/workspace-screen")), "WorkspaceScreen"),
});

const editRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/w/$key/edit",
  validateSearch: (s: Record<string, unknown>): { path?: string; naming?: true; goto?: string; find?: true } => ({
    path: text(s.path),
    find: s.find === true || undefined,
    naming: s.naming === true || undefined,
    goto: text(s.goto), // "12:3" or "12-20"
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

const tasksRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/tasks",
  component: lazyRouteComponent(() => part(() => import("@/tasks/tasks-screen")), "TasksScreen"),
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

const sandboxesRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/sandboxes",
  component: lazyRouteComponent(() => part(() => import("@/standalone/sandboxes-screen")), "SandboxesScreen"),
});

const automationsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/automations",
  component: lazyRouteComponent(() => part(() => import("@/automations/automations-screen")), "AutomationsScreen"),
});

const jobsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/jobs",
  component: lazyRouteComponent(() => part(() => import("@/jobs/jobs-screen")), "JobsScreen"),
});

const skillsRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/skills",
  component: lazyRouteComponent(() => part(() => import("@/tools/skills-screen")), "SkillsScreen"),
});

const usageRoute = createRoute({
  getParentRoute: () => teamRoute,
  path: "/usage",
  validateSearch: usageSearch,
  component: lazyRouteComponent(() => part(() => import("@/costs/usage-screen")), "UsageScreen"),
});

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
  confirmRoute,
  resetRoute,
  emailRoute,
  joinRoute,
  watchRoute,
  demoRoute,
  teamRoute.addChildren([
    teamIndexRoute,
    inboxRoute,
    workspacesRoute,
    trashRoute,
    workspaceRoute,
    editRoute,
    tasksRoute,
    runsRoute,
    runRoute,
    projectsRoute,
    projectRoute,
    machinesRoute,
    machineRoute,
    sandboxesRoute,
    automationsRoute,
    jobsRoute,
    skillsRoute,
    usageRoute,
    settingsRoute,
  ]),
]);

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultErrorComponent: FailedPage,
  defaultNotFoundComponent: NotFoundPage,
  defaultPendingMs: 200,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
