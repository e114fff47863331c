import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "./client";

export type TrashItem = Schemas["TrashItem"];
export type Disk = Schemas["Disk"];

/** What was deleted and can be restored. */
export const trashQuery = (team: string) =>
  queryOptions({
    queryKey: ["team", team, "workspaces", "trash-of-all"] as const, // stale whenever the lists of workspaces are
    queryFn: () => data(api.GET("/teams/{team}/trash", { params: { path: { team } } })),
  });

/** What the team's work takes on disk. */
export const diskQuery = (team: string) =>
  queryOptions({
    queryKey: ["team", team, "disk"] as const,
    queryFn: () => data(api.GET("/teams/{team}/disk", { params: { path: { team } } })),
    // The event tells when it is counted; this is for when the event is missed.
    refetchInterval: (q) => (q.state.data?.counting ? 5_000 : false),
  });
