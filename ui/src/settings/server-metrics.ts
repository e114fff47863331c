import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { count, tenths } from "@/format/text";
import { remoteKeys } from "@/sandboxes/remote";

export type InstanceMetrics = Schemas["InstanceMetrics"];
export type Target = Schemas["MetricTarget"];

export const metricsQuery = () =>
  queryOptions({
    queryKey: remoteKeys.metrics,
    queryFn: () => data(api.GET("/instance/metrics")),
    refetchInterval: 15_000,
  });

/** A part of a whole as people read it: "99.4 %", "0 %", "100 %" only where it is all; "–" where nothing was counted yet. */
export function percent(part: number | null): string {
  if (part === null) return "–";
  const p = Math.max(0, part) * 100;
  if (p === 0 || p === 100) return `${p} %`;
  if (p < 0.1) return "<0.1 %";
  if (p > 99.9 && p < 100) return ">99.9 %";
  return `${p < 10 || p > 90 ? tenths(p) : Math.round(p)} %`;
}

/** Milliseconds that were measured: "240 ms", "2.4 s"; "–" where nothing was yet. */
export function took(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 10_000 ? `${tenths(ms / 1000)} s` : `${count(Math.round(ms / 1000))} s`;
}

/** How much of the budget is spent, and whether that needs a look. */
export function budgetSaid(b: InstanceMetrics["budget"]): {
  words: string;
  part: number;
  mark: "done" | "needs" | "failed";
} {
  if (!b.limit_nano) return { words: t`${usd(b.spent_nano)} this month; no budget is set`, part: 0, mark: "done" };
  const part = b.spent_nano / b.limit_nano;
  const words = t`${usd(b.spent_nano)} of ${usd(b.limit_nano)} this month, ${usd(Math.max(0, b.left_nano ?? 0))} left`;
  return { words, part, mark: part >= 1 ? "failed" : part >= 0.9 ? "needs" : "done" };
}

/** A target's newest figure in its unit. */
export function targetValue(t: Pick<Target, "value" | "unit">): string {
  if (t.value === null) return "";
  return t.unit === "percent" ? percent(t.value / 100) : took(t.value);
}
