import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

/** A size of a place; `refused`: a quota keeps who asks from it. */
export type Size = Schemas["PlaceSize"];
export type MakingStep = Schemas["SandboxStep"];

/** A place as the team may use it. */
export type Place = Schemas["Executor"];

export type SyncSummary = Schemas["SyncSummary"];
export type RemoteSandbox = Schemas["Sandbox"];
export type NotSynced = Schemas["NotSynced"];
export type Conflict = Schemas["SyncConflict"];

export type Ports = Schemas["Ports"];

export const remoteKeys = {
  sync: (id: string) => ["workspace", id, "sync"] as const,
  ports: (id: string) => ["workspace", id, "ports"] as const,
  instance: ["instance", "places"] as const,
  metrics: ["instance", "metrics"] as const,
};

export const syncQuery = (id: string) =>
  queryOptions({
    queryKey: remoteKeys.sync(id),
    queryFn: () => data(api.GET("/workspaces/{id}/sync", { params: { path: { id } } })),
  });

export const settleConflict = (id: string) => api.DELETE("/sync-conflicts/{id}", { params: { path: { id } } });

export const portsQuery = (id: string, live: boolean) =>
  queryOptions({
    queryKey: remoteKeys.ports(id),
    queryFn: () => data(api.GET("/workspaces/{id}/ports", { params: { path: { id } } })),
    refetchInterval: live ? 5000 : false,
    retry: false,
  });

export const openPort = (id: string, port: number, path?: string) =>
  data(api.POST("/workspaces/{id}/ports/{port}/open", { params: { path: { id, port } }, body: { path } }));

/** Moves a workspace whose place cannot serve to this server, because a person said so. */
export const fallBack = (id: string) => data(api.POST("/workspaces/{id}/fallback", { params: { path: { id } } }));
