import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { hourly, usd } from "@/format/money";
import { remoteKeys } from "@/sandboxes/remote";

export type PlaceTest = Schemas["PlaceTest"];

type Setting = Schemas["Setting"];
type Values = Schemas["SettingValues"]["values"];

interface Held<T> {
  value: T;
  locked: boolean;
}

/** The settings by the parts of the form. */
export interface InstancePlaces {
  default_executor: Held<string>;
  allow_user_choice: Held<boolean>;
  monthly_budget_usd: Held<number>;
  pool: { enabled: Held<boolean>; min: Held<number>; max: Held<number> };
  e2b: Record<"domain" | "api_url" | "sandbox_url" | "template", Held<string>> &
    Record<"default_cpus" | "default_memory_mb" | "max_session_minutes" | "idle_minutes", Held<number>> & {
      fallback_to_local: Held<boolean>;
      key: { set: boolean; last_four: string; locked: boolean };
    };
  test?: PlaceTest;
}

export interface InstancePatch {
  default_executor?: string;
  allow_user_choice?: boolean;
  monthly_budget_usd?: number;
  e2b?: Values & { api_key?: string };
  pool?: Values;
}

function parts(all: Schemas["InstancePlaces"]): InstancePlaces {
  const held = (settings: Setting[], name: string) => {
    const s = settings.find((x) => x.name === name);
    return { value: s?.value, locked: s?.locked ?? true };
  };
  const one = (name: string) => held(all.settings, name);
  const cloud = all.places.find((p) => p.kind === "e2b")?.settings ?? [];
  const key = cloud.find((s) => s.name === "api_key");
  const names = [
    ...["domain", "api_url", "sandbox_url", "template", "default_cpus", "default_memory_mb"],
    ...["max_session_minutes", "idle_minutes", "fallback_to_local"],
  ];
  return {
    ...Object.fromEntries(["default_executor", "allow_user_choice", "monthly_budget_usd"].map((n) => [n, one(n)])),
    pool: { enabled: one("pool.enabled"), min: one("pool.min"), max: one("pool.max") },
    e2b: {
      ...Object.fromEntries(names.map((n) => [n, held(cloud, n)])),
      key: { set: key?.set ?? false, last_four: key?.last_four ?? "", locked: key?.locked ?? true },
    },
  } as InstancePlaces;
}

export const instanceQuery = () =>
  queryOptions({ queryKey: remoteKeys.instance, queryFn: async () => parts(await data(api.GET("/instance/places"))) });

const cloud = { params: { path: { kind: "e2b" } } };

export async function saveInstance({ e2b, pool, ...rest }: InstancePatch): Promise<InstancePlaces> {
  const test =
    e2b && (await data(api.PUT("/instance/places/{kind}", { ...cloud, body: { values: e2b as Values } }))).test;
  const values: Values = { ...rest };
  for (const [name, value] of Object.entries(pool ?? {})) values[`pool.${name}`] = value;
  return { ...parts(await data(api.PUT("/instance/places", { body: { values } }))), ...(test ? { test } : {}) };
}

/** Tries a key and addresses, those that are kept or others; nothing is started. */
export const testE2B = (values: Values) =>
  data(api.POST("/instance/places/{kind}/test", { ...cloud, body: { values } }));

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
