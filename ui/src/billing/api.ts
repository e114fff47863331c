import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

export type Billing = Schemas["Billing"];
export type BillingPlan = Schemas["BillingPlan"];
export type Invoice = Schemas["Invoice"];

/** Below ["costs", team], which an event of the team's billing makes stale. */
export const billingKey = (team: string) => ["costs", team, "billing"] as const;

export const billingQuery = (team: string) =>
  queryOptions({
    queryKey: billingKey(team),
    queryFn: () => data(api.GET("/teams/{team}/billing", { params: { path: { team } } })),
    staleTime: 60_000,
  });

export const syncBilling = (team: string, checkout?: string) =>
  data(api.POST("/teams/{team}/billing/sync", { params: { path: { team } }, body: { checkout_id: checkout } }));

export const beginCheckout = (team: string, plan: string, seats?: number) =>
  data(api.POST("/teams/{team}/billing/checkout", { params: { path: { team } }, body: { plan_id: plan, seats } }));

export const openPortal = (team: string) =>
  data(api.POST("/teams/{team}/billing/portal", { params: { path: { team } } }));
