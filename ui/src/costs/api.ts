import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";

export type UsageFigures = Schemas["UsageAmounts"];
export type UsageItem = Schemas["UsageItem"];
export type Usage = Schemas["UsageReport"];
export type WorkspaceCosts = Schemas["WorkspaceCosts"];

export type UsageGroup = import("./usage-search").UsageGroup | "hour";

/** The scope of usage: a team by its slug, or the whole server. */
export type Whose = { team: string } | { instance: true };

export interface Span {
  from: number;
  to: number;
}

export type BudgetStatus = Schemas["BudgetStatus"];
export type Budget = Schemas["BudgetOfTeam"];
export type BudgetSettings = Omit<Budget, "status" | "alerts">;
export type LimitAlert = Schemas["BudgetAlert"];
/** null does not bind. */
export type Quota = Schemas["Quota"];
export type QuotaField = "hours_month" | "concurrent" | "cpus" | "memory_mb" | "session_minutes";
export type QuotaRow = Schemas["UserQuota"];
export type QuotaList = Schemas["TeamQuotas"];
export type QuotaChange = Schemas["QuotaChange"];
export type MyQuota = Schemas["MyQuota"];

export const costKeys = {
  usage: (whose: Whose, span: Span, group: UsageGroup) =>
    ["costs", "team" in whose ? whose.team : "", "usage", span.from, span.to, group] as const,
  budget: (team: string) => ["costs", team, "budget"] as const,
  quotas: (team: string) => ["costs", team, "quotas"] as const,
  mine: keys.myQuotas,
  workspace: keys.costs,
};

const base = (whose: Whose): string => ("team" in whose ? `/teams/${encodeURIComponent(whose.team)}` : "/instance");

const asked = (span: Span, group: UsageGroup): string => `from=${span.from}&to=${span.to}&group=${group}`;

export const usageQuery = (whose: Whose, span: Span, group: UsageGroup) =>
  queryOptions({
    queryKey: costKeys.usage(whose, span, group),
    queryFn: async () => {
      const query = { from: span.from, to: span.to };
      const answer =
        "team" in whose
          ? api.GET("/teams/{team}/usage", {
              params: { path: { team: whose.team }, query: { ...query, group: group === "team" ? "day" : group } },
            })
          : api.GET("/instance/usage", { params: { query: { ...query, group } } });
      return (await data<Usage | string>(answer)) as Usage; // text is the answer of format=csv only
    },
    placeholderData: keepPreviousData,
  });

/** The download address of the same table. */
export const usageFile = (whose: Whose, span: Span, group: UsageGroup): string =>
  `/api/v1${base(whose)}/usage?${asked(span, group)}&format=csv`;

export const budgetQuery = (team: string) =>
  queryOptions({
    queryKey: costKeys.budget(team),
    queryFn: () => data(api.GET("/teams/{team}/budget", { params: { path: { team } } })),
    staleTime: 15_000,
  });

export const saveBudget = (team: string, body: BudgetSettings) =>
  data(api.PUT("/teams/{team}/budget", { params: { path: { team } }, body }));

/** The scope of quotas: the user's team by slug, or, for operators, any team by id. */
export type QuotasOf = { team: string } | { teamId: string };

export const quotasKey = (of: QuotasOf) =>
  "team" in of ? costKeys.quotas(of.team) : (["instance", "quotas", of.teamId] as const);

export const quotasQuery = (of: QuotasOf) =>
  queryOptions({
    queryKey: quotasKey(of),
    queryFn: () =>
      "team" in of
        ? data(api.GET("/teams/{team}/quotas", { params: { path: { team: of.team } } }))
        : data(api.GET("/instance/teams/{id}/quotas", { params: { path: { id: of.teamId } } })),
  });

export const saveQuotas = (of: QuotasOf, items: QuotaChange[]) =>
  "team" in of
    ? data(api.PUT("/teams/{team}/quotas", { params: { path: { team: of.team } }, body: { items } }))
    : data(api.PUT("/instance/teams/{id}/quotas", { params: { path: { id: of.teamId } }, body: { items } }));

/** The user's quota use in each of their teams. */
export const mineQuery = () =>
  queryOptions({
    queryKey: costKeys.mine,
    queryFn: async () => (await data(api.GET("/me/quotas"))).items,
    staleTime: 15_000,
  });

/** What a workspace cost, and how fast it goes on. */
export const workspaceCostsQuery = (id: string) =>
  queryOptions({
    queryKey: costKeys.workspace(id),
    queryFn: () => data(api.GET("/workspaces/{id}/costs", { params: { path: { id } } })),
    staleTime: 10_000,
    refetchInterval: (q) => (q.state.data && q.state.data.rate_nano_per_hour > 0 ? 30_000 : false),
    retry: false,
  });
