import { ApiError } from "@/api/problem";

/** The stable codes of what a quota, a budget or a payment keeps from beginning, with what a person is told first. */
export const TITLES = {
  quota_exceeded: "Your hours of this month are used up",
  budget_exceeded: "The budget of this month is spent",
  size_not_in_plan: "This size is beyond your plan",
  concurrency_limit: "As many sandboxes run as may run at once",
  creation_rate_limit: "Too many sandboxes were made within an hour",
  kill_switch: "The operators have stopped paid sandboxes",
  payment_past_due: "A payment is due",
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

/** The refusal an answer tells, where it is one. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof ApiError) || !isCode(error.code)) return undefined;
  const d = error.details;
  return {
    code: error.code,
    title:
      error.code === "budget_exceeded" && d.scope === "instance_budget"
        ? "The server's budget is spent"
        : TITLES[error.code],
    scope: typeof d.scope === "string" ? d.scope : "",
    used: num(d.used),
    limit: num(d.limit),
    unit: UNITS.find((u) => u === d.unit),
    resetsAt: num(d.resets_at),
    priceNanoPerHour: num(d.price_nano_per_hour),
  };
}
