import { queryOptions } from "@tanstack/react-query";
import { ask, farKeys } from "./far";
import { hourly, usd } from "./money";

interface Setting<T> {
  value: T;
  /** config.json or the environment says it. */
  locked: boolean;
}

export interface InstancePlaces {
  default_executor: Setting<string>;
  allow_user_choice: Setting<boolean>;
  monthly_budget_usd: Setting<number>;
  e2b: {
    key: { set: boolean; last_four: string; locked: boolean };
    domain: Setting<string>;
    api_url: Setting<string>;
    sandbox_url: Setting<string>;
    template: Setting<string>;
    default_cpus: Setting<number>;
    default_memory_mb: Setting<number>;
    max_session_minutes: Setting<number>;
    idle_minutes: Setting<number>;
    fallback_to_local: Setting<boolean>;
  };
  pool: { enabled: Setting<boolean>; min: Setting<number>; max: Setting<number> };
  test?: PlaceTest;
}

export interface PlaceTest {
  ok: boolean;
  reason: string;
  cure: string;
  account?: string;
}

export interface InstancePatch {
  default_executor?: string;
  allow_user_choice?: boolean;
  monthly_budget_usd?: number;
  e2b?: {
    api_key?: string;
    domain?: string;
    api_url?: string;
    sandbox_url?: string;
    template?: string;
    default_cpus?: number;
    default_memory_mb?: number;
    max_session_minutes?: number;
    idle_minutes?: number;
    fallback_to_local?: boolean;
  };
  pool?: { enabled?: boolean; min?: number; max?: number };
}

export const instanceQuery = () =>
  queryOptions({ queryKey: farKeys.instance, queryFn: () => ask<InstancePlaces>("GET", "/instance/places") });

export const saveInstance = (patch: InstancePatch) => ask<InstancePlaces>("PUT", "/instance/places", patch);

/** Tries a key and addresses, those that are kept or others; nothing is started. */
export const testE2B = (trial: { api_key?: string; domain?: string; api_url?: string }) =>
  ask<PlaceTest>("POST", "/instance/places/e2b/test", trial);

/** A number as a field shows it: none is an empty field. */
export const amount = (n: number): string => (n > 0 ? String(n) : "");

/** What is wrong with what was typed as a whole number; undefined when nothing is. */
export function wrongNumber(text: string): string | undefined {
  return /^\s*\d{0,9}\s*$/.test(text) ? undefined : "A whole number, please.";
}

const HOURS = 730; // of a month on average

/** What sandboxes that wait ahead of time cost. */
export const poolCostWords = (price: number, least: number): string =>
  `${least} ready at the default size: ${hourly(price * least)} an hour, about ${usd(price * least * HOURS)} a month.`;
