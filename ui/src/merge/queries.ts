import { type QueryClient, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api, data, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { changesQuery } from "@/api/queries";

export const homeKeys = {
  /** Below the project: it may look different whenever a branch of that moved. */
  standing: (project: string, id: string) => ["project", project, "standing", id] as const,
  update: (id: string, strategy: string, stamp: string) => ["workspace", id, "update", strategy, stamp] as const,
  forge: (project: string) => ["project", project, "forge"] as const,
  pull: (id: string) => ["workspace", id, "pull-request"] as const,
  proposal: (id: string, head: string) => ["workspace", id, "pull-request-proposal", head] as const,
  gitWork: (project: string) => ["project", project, "git-work"] as const,
};

export type UpdateStrategy = "merge" | "rebase";

const mergeStatusQuery = (w: Workspace) =>
  queryOptions({
    queryKey: homeKeys.standing(w.project_id, w.id),
    queryFn: () => data(api.GET("/workspaces/{id}/merge-status", { params: { path: { id: w.id } } })),
    staleTime: 5_000,
  });

/** How a workspace's branch and base stand to each other, read again when either or the files moved. */
export function useMergeStatus(w: Workspace) {
  const client = useQueryClient();
  const changes = useQuery(changesQuery(w.id));
  const stamp = `${w.updated_at} ${changes.data?.version ?? 0} ${changes.data?.head_commit ?? ""}`;
  const last = useRef(stamp);
  useEffect(() => {
    if (last.current === stamp) return;
    last.current = stamp;
    void client.invalidateQueries({ queryKey: homeKeys.standing(w.project_id, w.id) });
  }, [client, stamp, w.project_id, w.id]);
  return useQuery(mergeStatusQuery(w));
}

/** Fetches from the remote, then returns the status. */
export async function fetchStanding(client: QueryClient, w: Workspace): Promise<void> {
  const found = await data(
    api.GET("/workspaces/{id}/merge-status", { params: { path: { id: w.id }, query: { fetch: true } } }),
  );
  client.setQueryData(homeKeys.standing(w.project_id, w.id), found);
}

/** What an update would do, tried without touching a file. The stamp names branch, base and files as they are now. */
export const updatePreviewQuery = (id: string, strategy: UpdateStrategy, stamp: string) =>
  queryOptions({
    queryKey: homeKeys.update(id, strategy, stamp),
    queryFn: () =>
      data(api.POST("/workspaces/{id}/update", { params: { path: { id } }, body: { strategy, dry_run: true } })),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });

export const conflictsKey = (id: string) => ["workspace", id, "conflicts"] as const;

/** The conflicts in the worktree. The stamp identifies the current files. */
export const conflictsQuery = (id: string, stamp: string) =>
  queryOptions({
    queryKey: [...conflictsKey(id), stamp] as const,
    queryFn: () => data(api.GET("/workspaces/{id}/update/conflicts", { params: { path: { id } } })),
    placeholderData: (before) => before,
    staleTime: 2_000,
  });

/** Events bring what changes; the poll covers progress while something is under way. */
export const gitWorkQuery = (project: string) =>
  queryOptions({
    queryKey: homeKeys.gitWork(project),
    queryFn: async () => (await data(api.GET("/projects/{id}/git-work", { params: { path: { id: project } } }))).items,
    refetchInterval: (q) => (q.state.data?.length ? 2000 : false),
  });

/** Everything of a workspace may look different after its branch or its base moved. */
export function afterMove(client: QueryClient, w: Workspace, team: string): void {
  void client.invalidateQueries({ queryKey: ["workspace", w.id] });
  void client.invalidateQueries({ queryKey: ["project", w.project_id] });
  void client.invalidateQueries({ queryKey: ["team", team, "workspaces"] });
}

/** Where the project's pull requests are, and whether one could open one. */
export const forgeQuery = (project: string) =>
  queryOptions({
    queryKey: homeKeys.forge(project),
    queryFn: () => data(api.GET("/projects/{id}/forge", { params: { path: { id: project } } })),
    staleTime: 5_000,
  });

/** The workspace's pull request, or null. Events announce changes. */
export const pullQuery = (id: string) =>
  queryOptions({
    queryKey: homeKeys.pull(id),
    queryFn: async () => {
      try {
        return await data(api.GET("/workspaces/{id}/pull-request", { params: { path: { id } } }));
      } catch (error) {
        if (error instanceof ApiError && error.code === "pull_request_missing") return null;
        throw error;
      }
    },
  });

/** What a pull request would be opened with, for the branch as it is. */
export const proposalQuery = (id: string, head: string) =>
  queryOptions({
    queryKey: homeKeys.proposal(id, head),
    queryFn: () => data(api.GET("/workspaces/{id}/pull-request/proposal", { params: { path: { id } } })),
    placeholderData: (before) => before,
  });
