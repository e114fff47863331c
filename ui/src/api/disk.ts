import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "./client";

export type TrashItem = Schemas["TrashItem"];
export type Disk = Schemas["Disk"];

/** What was deleted and can be restored. */
export const trashQuery = (team: string) =>
  queryOptions({
    queryKey: ["team", team, "workspaces", "trash-of-all"] as const, // invalidated together with the workspace lists
    queryFn: () => data(api.GET("/teams/{team}/trash", { params: { path: { team } } })),
  });

/** The team's disk usage. */
export const diskQuery = (team: string) =>
  queryOptions({
    queryKey: ["team", team, "disk"] as const,
    queryFn: () => data(api.GET("/teams/{team}/disk", { params: { path: { team } } })),
    // An event announces new counts; this interval covers a missed event.
    refetchInterval: (q) => (q.state.data?.counting ? 5_000 : false),
  });
