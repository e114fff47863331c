import { t } from "@lingui/core/macro";
import { ApiError } from "@/api/problem";

/** The stable error codes of starts refused by a quota, a budget or a payment, each with its headline. */
export const TITLES = {
  quota_exceeded: t`Your hours for this month are used up`,
  budget_exceeded: t`This month's budget is spent`,
  size_not_in_plan: t`Your plan does not include this size`,
  concurrency_limit: t`The maximum number of sandboxes is running`,
  creation_rate_limit: t`Too many sandboxes were created within an hour`,
  kill_switch: t`The operators have stopped paid sandboxes`,
  payment_past_due: t`A payment is due`,
} as const;

export type RefusalCode = keyof typeof TITLES;

/** Why something that costs may not begin, in figures. */
export interface Refusal {
  code: RefusalCode;
  title: string;
  /** user_hours, team_budget, instance_budget, size, payment, kill_switch, ... */
  scope: string;
  used?: number;
  limit?: number;
  unit?: "ms" | "nano_usd" | "sandboxes" | "cpus" | "memory_mb";
  resetsAt?: number;
  priceNanoPerHour?: number;
}

const UNITS = ["ms", "nano_usd", "sandboxes", "cpus", "memory_mb"] as const;

export const isCode = (code: string): code is RefusalCode => Object.hasOwn(TITLES, code);
const num = (v: unknown): number | undefined => (typeof v === "number" && Number.isFinite(v) ? v : undefined);

/** The refusal in an error response, if it is one. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof ApiError) || !isCode(error.code)) return undefined;
  const d = error.details;
  return {
    code: error.code,
    title:
      error.code === "budget_exceeded" && d.scope === "instance_budget"
        ? t`The server's budget is spent`
        : TITLES[error.code],
    scope: typeof d.scope === "string" ? d.scope : "",
    used: num(d.used),
    limit: num(d.limit),
    unit: UNITS.find((u) => u === d.unit),
    resetsAt: num(d.resets_at),
    priceNanoPerHour: num(d.price_nano_per_hour),
  };
}
