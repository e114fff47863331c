import { queryOptions } from "@tanstack/react-query";
import { allPages, api, data } from "@/api/client";

export const sandboxesKey = (team: string) => ["team", team, "sandboxes"] as const;

/** The user's sandboxes without a repository; owners and admins see those of all members. */
export const sandboxesQuery = (team: string) =>
  queryOptions({
    queryKey: sandboxesKey(team),
    queryFn: () =>
      allPages((cursor) =>
        data(api.GET("/teams/{team}/sandboxes", { params: { path: { team }, query: { limit: 200, cursor } } })),
      ),
    refetchInterval: 10_000, // scripts make and use them; no event says so
  });

export const folderQuery = (id: string, path: string) =>
  queryOptions({
    queryKey: ["sandbox", id, "files", path],
    queryFn: () =>
      data(api.GET("/sandboxes/{id}/files/list", { params: { path: { id }, query: path ? { path } : {} } })),
  });
