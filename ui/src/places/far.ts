import { queryOptions } from "@tanstack/react-query";
import { raw, type Schemas, type Workspace } from "@/api/client";

export type Size = Schemas["PlaceSize"];
export type MakingStep = Schemas["SandboxStep"];

/** A place as the team may use it. */
export type Place = Schemas["Executor"] & { budget_left_nano?: number | null };

export interface SyncSummary {
  state: "synced" | "syncing" | "behind";
  synced_at: number | null;
  pending: number;
  reason: string;
  not_synced: number;
  conflicts: number;
}

export type FarSandbox = Schemas["Sandbox"] & { sync?: SyncSummary | null };

export interface NotSynced {
  path: string;
  state: string;
  reason: string;
  size: number;
}

export interface Conflict {
  id: string;
  path: string;
  kept_path: string;
  found_at: number;
}

export interface SyncState extends Omit<SyncSummary, "not_synced" | "conflicts"> {
  not_synced: NotSynced[];
  conflicts: Conflict[];
}

export interface Ports {
  enabled: boolean;
  reason: string;
  items: { port: number; url: string }[];
}

/** A call the generated client does not know. */
export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const r = await raw(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  });
  return (r.status === 204 ? undefined : await r.json()) as T;
}

const at = (id: string): string => `/workspaces/${encodeURIComponent(id)}`;

export const farKeys = {
  sync: (id: string) => ["workspace", id, "sync"] as const,
  ports: (id: string) => ["workspace", id, "ports"] as const,
  instance: ["instance", "places"] as const,
  metrics: ["instance", "metrics"] as const,
};

export const syncQuery = (id: string) =>
  queryOptions({ queryKey: farKeys.sync(id), queryFn: () => ask<SyncState>("GET", `${at(id)}/sync`), retry: false });

export const settleConflict = (conflict: string) =>
  ask<void>("DELETE", `/sync-conflicts/${encodeURIComponent(conflict)}`);

export const portsQuery = (id: string, live: boolean) =>
  queryOptions({
    queryKey: farKeys.ports(id),
    queryFn: () => ask<Ports>("GET", `${at(id)}/ports`),
    refetchInterval: live ? 5000 : false,
    retry: false,
  });

export const openPort = (id: string, port: number) => ask<{ url: string }>("POST", `${at(id)}/ports/${port}/open`);

/** Moves a workspace whose place cannot serve to this server, because a person said so. */
export const fallBack = (id: string) => ask<Workspace>("POST", `${at(id)}/fallback`);
