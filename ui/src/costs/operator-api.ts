import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

// What operators say of prices and plans.

export type Price = Schemas["Price"];
export type NewPrice = Schemas["NewPrice"];
export type Plan = Schemas["Plan"];
export type PlanList = Schemas["PlanList"];

/** The ids of the plans that are always there, the smallest first. */
export const BUILT_IN_PLANS: readonly string[] = ["free", "pro", "enterprise"];

export const instanceKeys = {
  prices: ["instance", "prices"] as const,
  plans: ["instance", "plans"] as const,
  killSwitch: ["instance", "kill-switch"] as const,
  teamPlan: (id: string) => ["instance", "plan-of", id] as const,
};

export const pricesQuery = () =>
  queryOptions({
    queryKey: instanceKeys.prices,
    queryFn: async () => (await data(api.GET("/instance/prices"))).items,
  });

export const addPrice = (body: NewPrice) => data(api.POST("/instance/prices", { body }));

export const plansQuery = () =>
  queryOptions({ queryKey: instanceKeys.plans, queryFn: () => data(api.GET("/instance/plans")) });

export const addPlan = (body: Schemas["NewPlan"]) => data(api.POST("/instance/plans", { body }));
export const changePlan = (id: string, body: Schemas["PlanPatch"]) =>
  data(api.PATCH("/instance/plans/{id}", { params: { path: { id } }, body }));
export const deletePlan = (id: string) => api.DELETE("/instance/plans/{id}", { params: { path: { id } } });
export const setDefaultPlan = (id: string) => data(api.PUT("/instance/plans", { body: { default_plan: id } }));

export const teamPlanQuery = (id: string) =>
  queryOptions({
    queryKey: instanceKeys.teamPlan(id),
    queryFn: () => data(api.GET("/instance/teams/{id}/plan", { params: { path: { id } } })),
  });

export const setTeamPlan = (id: string, plan: string | null) =>
  data(api.PUT("/instance/teams/{id}/plan", { params: { path: { id } }, body: { plan_id: plan } }));

export const killSwitchQuery = () =>
  queryOptions({ queryKey: instanceKeys.killSwitch, queryFn: () => data(api.GET("/instance/kill-switch")) });

export const setKillSwitch = (body: { on: boolean; stop?: boolean; reason: string }) =>
  data(api.PUT("/instance/kill-switch", { body }));
