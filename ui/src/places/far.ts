import { queryOptions } from "@tanstack/react-query";
import { raw, type Schemas, type Workspace } from "@/api/client";

/** One size a place offers. */
export interface Size {
  cpus: number;
  memory_mb: number;
  price_nano_per_hour: number;
  available: boolean;
  reason: string;
  cure: string;
  default: boolean;
}

/** A place as the team may use it; what only places with a disk of their own have may be absent. */
export type Place = Schemas["Executor"] & {
  own_disk?: boolean;
  pause_free?: boolean;
  sizes?: Size[];
  lease_ms?: number;
  run_ms?: number;
  idle_minutes?: number;
  /** An admin allows that a workspace starts on this server when this place cannot serve. */
  fallback?: boolean;
  budget_left_nano?: number | null;
};

export interface MakingStep {
  name: string;
  title: string;
  state: "pending" | "running" | "done" | "failed" | "cancelled";
  detail: string;
  /** Bytes done of all; all is 0 while it is not known. */
  done: number;
  all: number;
  started_at: number | null;
  ended_at: number | null;
}

export interface SyncSummary {
  state: "synced" | "syncing" | "behind";
  synced_at: number | null;
  pending: number;
  reason: string;
  not_synced: number;
  conflicts: number;
}

/** A sandbox; what only places with a disk of their own have may be absent. */
export type FarSandbox = Schemas["Sandbox"] & {
  own_disk?: boolean;
  steps?: MakingStep[];
  purpose?: string;
  paused_for?: "" | "person" | "idle" | "limit" | "ceiling" | "lease";
  paused_at?: number | null;
  size?: { cpus: number; memory_mb: number };
  price_nano_per_hour?: number;
  run_ends_at?: number | null;
  lease_until?: number | null;
  idle_at?: number | null;
  pooled?: boolean;
  user_id?: string;
  sync?: SyncSummary | null;
};

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
