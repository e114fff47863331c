import { keepPreviousData, type QueryClient, queryOptions } from "@tanstack/react-query";
import { allPages, api, data, type Schemas, type Workspace } from "./client";

/** All query keys. events.ts invalidates by them. */
export const keys = {
  setup: ["setup"] as const,
  me: ["me"] as const,
  accounts: ["me", "agent-accounts"] as const,
  teamAccounts: (team: string) => ["team", team, "agent-accounts"] as const,
  links: (session: string) => ["links", "session", session] as const,
  teamLinks: (team: string) => ["links", "team", team] as const,
  members: (team: string) => ["team", team, "members"] as const,
  executors: (team: string) => ["team", team, "executors"] as const,
  agents: (team: string) => ["team", team, "agents"] as const,
  folder: (team: string, path: string) => ["team", team, "folder", path] as const,
  folderSearch: (team: string, q: string) => ["team", team, "folder-search", q] as const,
  inbox: (team: string) => ["team", team, "inbox"] as const,
  projects: (team: string) => ["team", team, "projects"] as const,
  workspaces: (team: string, show: Show) => ["team", team, "workspaces", show] as const,
  subagents: (team: string, session: string) => ["team", team, "subagents", session] as const,
  project: (id: string) => ["project", id] as const,
  projectTools: (id: string) => ["project", id, "tools"] as const,
  /** Skills and instructions: an event about them names a project or a team, and makes all that is shown stale. */
  skills: (...of: readonly unknown[]) => ["skills", ...of] as const,
  memory: (id: string) => ["project", id, "memory"] as const,
  branches: (id: string) => ["project", id, "branches"] as const,
  branchName: (id: string, name: string) => ["project", id, "branch-name", name] as const,
  workspace: (id: string) => ["workspace", id] as const,
  sessions: (id: string) => ["workspace", id, "sessions"] as const,
  prompts: (id: string, session: string) => ["workspace", id, "prompts", session] as const,
  conversation: (session: string) => ["conversation", session] as const,
  conversations: (id: string) => ["workspace", id, "conversations"] as const,
  changes: (id: string) => ["workspace", id, "changes"] as const,
  tree: (id: string, folder: string) => ["workspace", id, "tree", folder] as const,
  commits: (id: string) => ["workspace", id, "commits"] as const,
  activity: (id: string) => ["workspace", id, "activity"] as const,
  toolCalls: (id: string) => ["workspace", id, "tool-calls"] as const,
  desktop: (id: string) => ["workspace", id, "desktop"] as const,
  code: (id: string) => ["workspace", id, "code"] as const,
  diagnostics: (id: string) => ["workspace", id, "diagnostics"] as const,
  checkpoints: (id: string) => ["workspace", id, "checkpoints"] as const,
  edits: (id: string) => ["workspace", id, "edits"] as const,
  timeline: (id: string) => ["workspace", id, "activity", "timeline"] as const,
  loss: (id: string) => ["workspace", id, "loss"] as const,
  costs: (id: string) => ["workspace", id, "costs"] as const,
  reviews: (id: string) => ["workspace", id, "reviews"] as const,
  myQuotas: ["me", "quotas"] as const,
  sandbox: (id: string) => ["workspace", id, "sandbox"] as const,
  merge: (id: string, strategy: string, head: string) => ["workspace", id, "merge", strategy, head] as const,
  /** Every comparison of a workspace. */
  compared: (id: string) => ["workspace", id, "compare"] as const,
  compare: (id: string, from: string, to: string, ignoreSpace: boolean) =>
    ["workspace", id, "compare", from, to, ignoreSpace] as const,
};

export type Show = "active" | "archived" | "trash" | "all";

export const setupQuery = () => queryOptions({ queryKey: keys.setup, queryFn: () => data(api.GET("/setup")) });

export const meQuery = () =>
  queryOptions({ queryKey: keys.me, queryFn: () => data(api.GET("/me")), staleTime: 60_000, retry: false });

export const teamAccountsQuery = (team: string) =>
  queryOptions({
    queryKey: keys.teamAccounts(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/agent-accounts", { params: { path: { team } } }))).items,
  });

/** A session's share links and current viewers. */
export const linksQuery = (session: string) =>
  queryOptions({
    queryKey: keys.links(session),
    queryFn: async () => (await data(api.GET("/sessions/{id}/links", { params: { path: { id: session } } }))).items,
    refetchInterval: 10_000,
  });

export const teamLinksQuery = (team: string) =>
  queryOptions({
    queryKey: keys.teamLinks(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/watch-links", { params: { path: { team } } }))).items,
    refetchInterval: 30_000,
  });

export const membersQuery = (team: string) =>
  queryOptions({
    queryKey: keys.members(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/members", { params: { path: { team } } }))).items,
  });

export const executorsQuery = (team: string) =>
  queryOptions({
    queryKey: keys.executors(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/executors", { params: { path: { team } } }))).items,
  });

/** The same for a new workspace of a project, with the place that is suggested. */
export const projectExecutorsQuery = (team: string, project: string) =>
  queryOptions({
    queryKey: [...keys.executors(team), project],
    queryFn: () =>
      data(api.GET("/teams/{team}/executors", { params: { path: { team }, query: { project_id: project } } })),
  });

export const agentsQuery = (team: string) =>
  queryOptions({
    queryKey: keys.agents(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/agents", { params: { path: { team } } }))).items,
    staleTime: 30_000,
  });

/** Checks for the agents' programs again instead of using the server's cache. */
export async function refreshAgents(client: QueryClient, team: string): Promise<void> {
  const found = await data(api.GET("/teams/{team}/agents", { params: { path: { team }, query: { refresh: true } } }));
  client.setQueryData(keys.agents(team), found.items);
}

export const folderQuery = (team: string, path: string) =>
  queryOptions({
    queryKey: keys.folder(team, path),
    queryFn: () => data(api.GET("/teams/{team}/folders", { params: { path: { team }, query: path ? { path } : {} } })),
    placeholderData: keepPreviousData,
  });

export const folderSearchQuery = (team: string, q: string) =>
  queryOptions({
    queryKey: keys.folderSearch(team, q),
    queryFn: async () =>
      (await data(api.GET("/teams/{team}/folders/search", { params: { path: { team }, query: { q } } }))).items,
    enabled: q.length >= 2,
    placeholderData: keepPreviousData,
  });

export const projectsQuery = (team: string) =>
  queryOptions({
    queryKey: keys.projects(team),
    queryFn: () =>
      allPages((cursor) =>
        data(api.GET("/teams/{team}/projects", { params: { path: { team }, query: { limit: 200, cursor } } })),
      ),
    // Events bring progress; the poll covers a cut socket while a clone runs.
    refetchInterval: (q) => (q.state.data?.some((p) => p.state === "cloning") ? 2000 : false),
  });

export const workspacesQuery = (team: string, show: Show = "active") =>
  queryOptions({
    queryKey: keys.workspaces(team, show),
    queryFn: () =>
      allPages((cursor) =>
        data(api.GET("/teams/{team}/workspaces", { params: { path: { team }, query: { limit: 200, cursor, show } } })),
      ),
    refetchInterval: (q) => (q.state.data?.some(isBeingMade) ? 2000 : false),
  });

export const workspaceQuery = (id: string) =>
  queryOptions({
    queryKey: keys.workspace(id),
    queryFn: () => data(api.GET("/workspaces/{id}", { params: { path: { id } } })),
    refetchInterval: (q) => (q.state.data && isBeingMade(q.state.data) ? 1500 : false),
  });

export const sessionsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.sessions(id),
    queryFn: async () => (await data(api.GET("/workspaces/{id}/sessions", { params: { path: { id } } }))).items,
  });

export const changesQuery = (id: string) =>
  queryOptions({
    queryKey: keys.changes(id),
    queryFn: () => data(api.GET("/workspaces/{id}/changes", { params: { path: { id } } })),
    structuralSharing: false, // up to 50,000 rows: structural sharing costs more than it saves
  });

/** The entries of a folder of the workspace; "" is its top folder. */
export const treeQuery = (id: string, folder: string) =>
  queryOptions({
    queryKey: keys.tree(id, folder),
    queryFn: () =>
      data(api.GET("/workspaces/{id}/tree", { params: { path: { id }, query: folder ? { path: folder } : {} } })),
  });

export const commitsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.commits(id),
    queryFn: async () => (await data(api.GET("/workspaces/{id}/commits", { params: { path: { id } } }))).items,
  });

/** The key of the mutation that archives or deletes a workspace. */
export const removeKey = (id: string) => ["remove", id] as const;

export const lossQuery = (id: string) =>
  queryOptions({
    queryKey: keys.loss(id),
    queryFn: () => data(api.GET("/workspaces/{id}/loss", { params: { path: { id } } })),
    gcTime: 0,
    staleTime: 0,
  });

export const sandboxQuery = (id: string) =>
  queryOptions({
    queryKey: keys.sandbox(id),
    queryFn: () => data(api.GET("/workspaces/{id}/sandbox", { params: { path: { id } } })),
    refetchInterval: 10_000,
    retry: false,
  });

/** Whether a workspace gets the user's own secrets. */
export const ownSecretsQuery = (id: string) =>
  queryOptions({
    queryKey: ["workspace", id, "own-secrets"] as const,
    queryFn: () => data(api.GET("/workspaces/{id}/own-secrets", { params: { path: { id } } })),
    staleTime: 60_000,
  });

export const branchesQuery = (id: string) =>
  queryOptions({
    queryKey: keys.branches(id),
    queryFn: () => data(api.GET("/projects/{id}/branches", { params: { path: { id } } })),
    staleTime: 30_000,
  });

/** Fetches from the remote first. A failed fetch is part of the answer, not an error. */
export async function fetchBranches(client: QueryClient, id: string): Promise<void> {
  const found = await data(api.GET("/projects/{id}/branches", { params: { path: { id }, query: { fetch: true } } }));
  client.setQueryData(keys.branches(id), found);
}

export const branchNameQuery = (id: string, name: string) =>
  queryOptions({
    queryKey: keys.branchName(id, name),
    queryFn: async () =>
      (await data(api.GET("/projects/{id}/branch-name", { params: { path: { id }, query: { name } } }))).branch,
    enabled: id !== "" && name.trim() !== "",
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 30_000,
  });

export const mergePreviewQuery = (id: string, strategy: "merge" | "squash" | "rebase", head: string) =>
  queryOptions({
    queryKey: keys.merge(id, strategy, head),
    queryFn: () =>
      data(api.POST("/workspaces/{id}/merge", { params: { path: { id } }, body: { strategy, dry_run: true } })),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });

/** Files that differ between two states of a workspace. Comparisons with the newest state are refetched when files change. */
export const compareQuery = (id: string, from: string, to: string, ignoreSpace: boolean) =>
  queryOptions({
    queryKey: keys.compare(id, from, to, ignoreSpace),
    queryFn: async ({ signal }) => {
      const query = { from, to, ...(ignoreSpace ? { ignore_space: true } : {}) };
      const c = await data(api.GET("/workspaces/{id}/compare", { params: { path: { id }, query }, signal }));
      return { comparison: c, ignoreSpace };
    },
    structuralSharing: (old, now) => (sameComparison(old, now) ? old : now),
  });

/** Whether two responses are equal, to skip a rerender. Compares files by their hashes, because there may be 20,000. */
function sameComparison(old: unknown, now: unknown): boolean {
  if (!old) return false;
  const a = (old as Compared).comparison;
  const b = (now as Compared).comparison;
  return (
    a.from.rev === b.from.rev &&
    a.from.tree === b.from.tree &&
    a.from.commit === b.from.commit &&
    a.to.rev === b.to.rev &&
    a.to.tree === b.to.tree &&
    a.to.snapshot_id === b.to.snapshot_id &&
    a.newer === b.newer &&
    a.files.length === b.files.length &&
    a.files.every((f, i) => {
      const g = b.files[i]!;
      return f.path === g.path && f.mark === g.mark && f.viewed === g.viewed && f.folded === g.folded;
    })
  );
}

interface Compared {
  comparison: Schemas["Comparison"];
  ignoreSpace: boolean;
}

/** Whether a creation is still in progress. */
export function isBeingMade(w: Workspace): boolean {
  return w.state === "creating" || w.state === "setting_up";
}
