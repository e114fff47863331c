import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { count } from "@/format/text";
import { exactUsd } from "./amounts";

export type GatewayReport = Schemas["GatewayReport"];
export type GatewaySpan = Schemas["GatewaySpan"];
export type GatewayLine = Schemas["GatewayLine"];
export type ModelPrice = Schemas["ModelPrice"];
export type NewModelPrice = Schemas["NewModelPrice"];
export type ModelLimit = Schemas["ModelLimit"];
export type ModelLimits = Schemas["ModelLimitList"];
export type ModelRequest = Schemas["ModelRequest"];

export const modelKeys = {
  gateway: ["instance", "gateway"] as const,
  prices: ["instance", "model-prices"] as const,
  /** Of a team, or of the whole server without one. */
  limits: (team?: string) =>
    team ? (["team", team, "model-limits"] as const) : (["instance", "model-limits"] as const),
  requests: (team: string) => ["team", team, "model-requests"] as const,
};

export const gatewayQuery = () =>
  queryOptions({
    queryKey: modelKeys.gateway,
    queryFn: () => data(api.GET("/instance/gateway")),
    refetchInterval: 15_000,
  });

export const pricesQuery = () =>
  queryOptions({
    queryKey: modelKeys.prices,
    queryFn: async () => (await data(api.GET("/instance/model-prices"))).items,
  });

export const addPrice = (body: NewModelPrice) => data(api.POST("/instance/model-prices", { body }));

export const limitsQuery = (team?: string) =>
  queryOptions({
    queryKey: modelKeys.limits(team),
    queryFn: () =>
      team
        ? data(api.GET("/teams/{team}/model-limits", { params: { path: { team } } }))
        : data(api.GET("/instance/model-limits")),
  });

export const saveLimits = (items: ModelLimit[], team?: string) =>
  team
    ? data(api.PUT("/teams/{team}/model-limits", { params: { path: { team } }, body: { items } }))
    : data(api.PUT("/instance/model-limits", { body: { items } }));

export const requestsPage = (team: string, cursor: string | undefined, error: string | undefined) =>
  data(api.GET("/teams/{team}/model-requests", { params: { path: { team }, query: { limit: 25, cursor, error } } }));

const NANO = 1_000_000_000;

/** A price for a million tokens, exact: "$5", "$0.125", "–" if unknown. */
export const perMillion = (nano: number | null): string => (nano === null ? "–" : exactUsd(nano, true));

/**
 * Parses typed dollars into exact nano-dollars; undefined if invalid. Avoids floating point: 0.1 must be exactly
 * 100,000,000.
 */
export function nanoOf(text: string): number | undefined {
  const m = /^\s*\$?\s*(\d{1,6})(?:[.,](\d{1,9}))?\s*$/.exec(text);
  if (!m) return undefined;
  return Number(m[1]) * NANO + Number((m[2] ?? "").padEnd(9, "0"));
}

/** A count as a field holds it: undefined = it is none, null = an empty field. */
export function limitOf(text: string): number | null | undefined {
  const t = text.trim();
  if (t === "") return null;
  return /^\d{1,9}$/.test(t) && Number(t) > 0 ? Number(t) : undefined;
}

const ERRORS: Record<string, string> = {
  under_way: t`In progress`,
  budget_exceeded: t`Budget spent`,
  rate_limited: t`Rate limited`,
  model_not_allowed: t`Model not allowed`,
  upstream_unreachable: t`Provider unreachable`,
  upstream_timeout: t`Timed out`,
  upstream_error: t`Refused by the provider`,
  cut: t`Cut off`,
  client_gone: t`Agent disconnected`,
};

/** The outcome of a request, in words. */
export const errorWords = (error: string): string => (error === "" ? t`Answered` : (ERRORS[error] ?? error));

/** Whether the outcome is an error, or only a disconnect or a rate limit. */
export const isFailure = (error: string): boolean => error !== "" && error !== "client_gone" && error !== "under_way";

/** The cost of a request; unknown is never shown as zero. */
export function costWords(r: Pick<ModelRequest, "cost_nano" | "included">): string {
  if (r.included) return t`in the subscription`;
  return r.cost_nano === null ? t`unknown` : usd(r.cost_nano);
}

/** Tokens that went in, with those from a cache; "?" where nobody knows. */
export function inWords(r: ModelRequest): string {
  if (r.input_tokens === null) return "?";
  const cached = r.cache_read_tokens ?? 0;
  const all = r.input_tokens + cached + (r.cache_write_tokens ?? 0) + (r.cache_write_hour_tokens ?? 0);
  return cached > 0 ? t`${count(all)} (${count(cached)} cached)` : count(all);
}

/** Rules being edited: numbers are text until saved. */
export interface Draft {
  key: number;
  model: string;
  allowed: boolean;
  requests: string;
  tokens: string;
}

export const draftOf = (l: ModelLimit, key: number): Draft => ({
  key,
  model: l.model,
  allowed: l.allowed,
  requests: l.requests_minute === null ? "" : String(l.requests_minute),
  tokens: l.tokens_minute === null ? "" : String(l.tokens_minute),
});

/** Validates a rule; undefined if it is valid. */
export function wrongRule(d: Draft, all: Draft[]): string | undefined {
  const model = d.model.trim();
  if (!/^(\*|[A-Za-z0-9][A-Za-z0-9._:/[\]-]*\*?)$/.test(model))
    return "Enter a model name, a prefix followed by *, or * for all models.";
  if (all.some((x) => x.key !== d.key && x.model.trim() === model)) return t`There are two rules for this model.`;
  if (limitOf(d.requests) === undefined || limitOf(d.tokens) === undefined)
    return t`Enter a whole number above 0, or leave empty for no limit.`;
  return undefined;
}

export const limitOfDraft = (d: Draft): ModelLimit => ({
  model: d.model.trim(),
  allowed: d.allowed,
  requests_minute: limitOf(d.requests) ?? null,
  tokens_minute: limitOf(d.tokens) ?? null,
});

/** Current rows first, then earlier and future ones, each group labelled. */
export function pricesByModel(all: ModelPrice[]): { now: ModelPrice[]; others: ModelPrice[] } {
  return { now: all.filter((p) => p.in_force), others: all.filter((p) => !p.in_force) };
}
