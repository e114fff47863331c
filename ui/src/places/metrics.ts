import { queryOptions } from "@tanstack/react-query";
import { count } from "@/format/text";
import { ask, farKeys } from "./far";
import { usd } from "./money";

export interface Target {
  name: string;
  target: number;
  value: number;
  unit: string;
  met: boolean;
  /** The same in words. */
  words: string;
}

export interface PlaceMetrics {
  executor: string;
  name: string;
  workspaces: number;
  /** Part of all workspaces, 0 to 1. */
  share: number;
  active: number;
  created: number;
  cleaned: number;
  reused: number;
  health_failures: number;
  fallbacks: number;
  failed: number;
  create_p50_ms: number;
  create_p95_ms: number;
  /** Part of the creations that worked, 0 to 1. */
  success: number;
  idle_share: number;
  sync_lag_p95_ms: number;
  cost_nano_month: number;
}

export interface InstanceMetrics {
  targets: Target[];
  places: PlaceMetrics[];
  workspaces: { workspace_id: string; key: string; name: string; team: string; cost_nano: number }[];
  users: { user_id: string; name: string; cost_nano: number }[];
  pool: { enabled: boolean; ready: number; making: number; taken: number; cost_nano_month: number };
  budget: { limit_nano: number; spent_nano: number; left_nano: number };
}

export const metricsQuery = () =>
  queryOptions({
    queryKey: farKeys.metrics,
    queryFn: () => ask<InstanceMetrics>("GET", "/instance/metrics"),
    refetchInterval: 15_000,
  });

/** A part of a whole as people read it: "99.4 %", "0 %", "100 %" only where it is all. */
export function percent(part: number): string {
  const p = Math.max(0, part) * 100;
  if (p === 0 || p === 100) return `${p} %`;
  if (p < 0.1) return "<0.1 %";
  if (p > 99.9 && p < 100) return ">99.9 %";
  return `${p < 10 || p > 90 ? p.toFixed(1) : Math.round(p)} %`;
}

/** Milliseconds that were measured: "240 ms", "2.4 s"; "–" where nothing was yet. */
export function took(ms: number): string {
  if (ms <= 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${count(Math.round(ms / 1000))} s`;
}

/** How much of the budget is spent, and whether that needs a look. */
export function budgetSaid(b: InstanceMetrics["budget"]): {
  words: string;
  part: number;
  mark: "done" | "needs" | "failed";
} {
  if (b.limit_nano <= 0) return { words: `${usd(b.spent_nano)} this month; no budget is set`, part: 0, mark: "done" };
  const part = b.spent_nano / b.limit_nano;
  const words = `${usd(b.spent_nano)} of ${usd(b.limit_nano)} this month, ${usd(Math.max(0, b.left_nano))} left`;
  return { words, part, mark: part >= 1 ? "failed" : part >= 0.9 ? "needs" : "done" };
}
