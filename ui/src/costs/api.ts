import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { raw } from "@/api/client";
import { keys } from "@/api/queries";

export interface UsageFigures {
  run_ms: number;
  metered_ms: number;
  vcpu_ms: number;
  mib_ms: number;
  cost_nano: number;
  tokens_cost_nano: number;
  tokens_unknown: number;
  input_tokens: number;
  output_tokens: number;
}

export interface UsageItem extends UsageFigures {
  key: string;
  name: string;
}

export type UsageGroup = import("@/app/usage-search").UsageGroup | "hour";

export interface Usage {
  from: number;
  to: number;
  group: UsageGroup;
  totals: UsageFigures;
  items: UsageItem[];
  forecast: { cost_nano: number; tokens_cost_nano: number; basis: string } | null;
}

/** Whose usage: a team's by its slug, or the whole server's. */
export type Whose = { team: string } | { instance: true };

export interface Span {
  from: number;
  to: number;
}

export interface BudgetStanding {
  period: string;
  resets_at: number;
  spent_nano: number;
  sandbox_nano: number;
  tokens_nano: number;
  tokens_unknown: number;
  reserved_nano: number;
  rate_nano_per_hour: number;
  exhausted_at: number | null;
  percent: number | null;
  state: "ok" | "warned" | "grace" | "stopped" | "overage";
}

export interface BudgetSettings {
  limit_nano: number | null;
  count_tokens: boolean;
  thresholds: number[];
  overage: boolean;
  overage_cap_nano: number | null;
  grace_seconds: number;
  tell: { app: boolean; mail: boolean; webhooks: boolean };
}

export interface LimitAlert {
  scope: string;
  percent: number;
  used: number;
  limit: number;
  noted_at: number;
}

export interface Budget extends BudgetSettings {
  standing: BudgetStanding;
  alerts: LimitAlert[];
}

/** null does not bind. */
export interface Quota {
  hours_month: number | null;
  concurrent: number | null;
  concurrent_team: number | null;
  cpus: number | null;
  memory_mb: number | null;
  session_minutes: number | null;
  creations_hour: number | null;
  seats: number | null;
}

export type QuotaField = "hours_month" | "concurrent" | "cpus" | "memory_mb" | "session_minutes";

export interface QuotaRow {
  user: { id: string; name: string };
  plan: Quota;
  by_hand: Partial<Quota>;
  effective: Quota;
  used: { hours_ms: number; running: number };
  percent: number | null;
  exhausted_at: number | null;
  resets_at: number;
}

export interface QuotaList {
  items: QuotaRow[];
  plan: { id: string; name: string };
}

export type QuotaChange = { user_id: string; inherit?: QuotaField[] } & Partial<Record<QuotaField, number | null>>;

export interface MyQuota extends Omit<QuotaRow, "user"> {
  team: { id: string; slug?: string; name: string };
}

export const costKeys = {
  usage: (whose: Whose, span: Span, group: UsageGroup) =>
    ["costs", "team" in whose ? whose.team : "", "usage", span.from, span.to, group] as const,
  budget: (team: string) => ["costs", team, "budget"] as const,
  quotas: (team: string) => ["costs", team, "quotas"] as const,
  mine: keys.myQuotas,
  workspace: keys.costs,
};

async function get<T>(path: string): Promise<T> {
  return (await raw(path)).json() as Promise<T>;
}

const base = (whose: Whose): string => ("team" in whose ? `/teams/${encodeURIComponent(whose.team)}` : "/instance");

const asked = (span: Span, group: UsageGroup): string => `from=${span.from}&to=${span.to}&group=${group}`;

export const usageQuery = (whose: Whose, span: Span, group: UsageGroup) =>
  queryOptions({
    queryKey: costKeys.usage(whose, span, group),
    queryFn: () => get<Usage>(`${base(whose)}/usage?${asked(span, group)}`),
    placeholderData: keepPreviousData,
  });

/** Where a browser downloads the same as a table of its own. */
export const usageFile = (whose: Whose, span: Span, group: UsageGroup): string =>
  `/api/v1${base(whose)}/usage?${asked(span, group)}&format=csv`;

export const budgetQuery = (team: string) =>
  queryOptions({
    queryKey: costKeys.budget(team),
    queryFn: () => get<Budget>(`/teams/${encodeURIComponent(team)}/budget`),
    staleTime: 15_000,
  });

async function put<T>(path: string, body: unknown, method = "PUT"): Promise<T> {
  const r = await raw(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return r.json() as Promise<T>;
}

export const saveBudget = (team: string, b: BudgetSettings) =>
  put<Budget>(`/teams/${encodeURIComponent(team)}/budget`, b);

export const quotasQuery = (team: string) =>
  queryOptions({
    queryKey: costKeys.quotas(team),
    queryFn: () => get<QuotaList>(`/teams/${encodeURIComponent(team)}/quotas`),
  });

export const saveQuotas = (team: string, items: QuotaChange[]) =>
  put<QuotaList>(`/teams/${encodeURIComponent(team)}/quotas`, { items });

/** How one stands in each of one's teams. */
export const mineQuery = () =>
  queryOptions({
    queryKey: costKeys.mine,
    queryFn: async () => (await get<{ items: MyQuota[] }>("/me/quotas")).items,
    staleTime: 15_000,
  });

export interface SessionCosts {
  session_id: string;
  agent: string;
  agent_name?: string;
  title?: string;
  cost_nano: number;
  tokens_cost_nano: number;
  tokens_unknown: number;
  input_tokens: number;
  output_tokens: number;
}

export interface WorkspaceCosts {
  cost_nano: number;
  tokens_cost_nano: number;
  tokens_unknown: number;
  /** Of what runs now; 0 = nothing that costs runs. */
  rate_nano_per_hour: number;
  exhausted_at: number | null;
  idle_at: number | null;
  by_session: SessionCosts[];
  grace: { scope: string; ends_at: number; state: string; reason: string } | null;
}

/** What a workspace cost, and how fast it goes on. */
export const workspaceCostsQuery = (id: string) =>
  queryOptions({
    queryKey: costKeys.workspace(id),
    queryFn: () => get<WorkspaceCosts>(`/workspaces/${encodeURIComponent(id)}/costs`),
    staleTime: 10_000,
    refetchInterval: (q) => (q.state.data && q.state.data.rate_nano_per_hour > 0 ? 30_000 : false),
    retry: false,
  });

export interface Price {
  id: string;
  executor: string;
  vcpu_second_nano: number;
  gib_second_nano: number;
  metered: boolean;
  effective_from: number;
  created_by: string;
  created_at: number;
}

export type NewPrice = Pick<Price, "executor" | "vcpu_second_nano" | "gib_second_nano" | "metered"> & {
  effective_from?: number;
};

export const instanceKeys = {
  prices: ["instance", "prices"] as const,
  plans: ["instance", "plans"] as const,
  killSwitch: ["instance", "billing"] as const,
};

export const pricesQuery = () =>
  queryOptions({
    queryKey: instanceKeys.prices,
    queryFn: async () => (await get<{ items: Price[] }>("/instance/prices")).items,
  });

export const addPrice = (p: NewPrice) => put<Price>("/instance/prices", p, "POST");

export interface KillSwitch {
  on: boolean;
  stop: boolean;
  reason: string;
  at: number;
}

export const killSwitchQuery = () =>
  queryOptions({
    queryKey: instanceKeys.killSwitch,
    queryFn: async () => (await get<{ kill_switch: KillSwitch }>("/instance/billing")).kill_switch,
    retry: false,
  });

export const setKillSwitch = (k: { on: boolean; stop?: boolean; reason: string }) =>
  put<KillSwitch>("/instance/kill-switch", k);

export interface Plan extends Quota {
  id: string;
  name: string;
  description: string;
  position: number;
  offered: boolean;
  seat_month_nano: number;
  trial_days: number;
  metered_usage: boolean;
}

export interface PlanList {
  items: Plan[];
  /** What teams have that nobody gave a plan. */
  default_plan: string;
  default_locked: boolean;
}

export const plansQuery = () =>
  queryOptions({ queryKey: instanceKeys.plans, queryFn: () => get<PlanList>("/instance/plans") });

export const addPlan = (p: Plan) => put<Plan>("/instance/plans", p, "POST");
export const changePlan = (id: string, p: Partial<Plan>) =>
  put<Plan>(`/instance/plans/${encodeURIComponent(id)}`, p, "PATCH");
export const deletePlan = (id: string) => raw(`/instance/plans/${encodeURIComponent(id)}`, { method: "DELETE" });
