import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { hourly, usd } from "@/format/money";
import type { Entry, FieldOf } from "@/kit/settings/schema";
import { remoteKeys, type Size } from "@/sandboxes/remote";
import { sizeId } from "@/sandboxes/remote-words";

export type PlaceSettings = Schemas["PlaceSettings"];
export type PlaceTest = Schemas["PlaceTest"];
type Setting = Schemas["Setting"];
type Value = Schemas["SettingValue"];
export type Values = Record<string, Value>;

export const instanceQuery = () =>
  queryOptions({ queryKey: remoteKeys.instance, queryFn: () => data(api.GET("/instance/places")) });

export const saveInstance = (values: Partial<Values>) =>
  data(api.PUT("/instance/places", { body: { values: values as Values } }));

export const savePlace = (kind: string, values: Partial<Values>) =>
  data(api.PUT("/instance/places/{kind}", { params: { path: { kind } }, body: { values: named(values) } }));

/** Tries a kind of place with settings that are kept or others; nothing is started. */
export const testPlace = (kind: string, values: Partial<Values>) =>
  data(api.POST("/instance/places/{kind}/test", { params: { path: { kind } }, body: { values: named(values) } }));

/** The settings by name; a secret is never told. */
export const valuesOf = (settings: readonly Setting[]): Values =>
  Object.fromEntries(settings.map((s) => [s.name, s.value ?? ""]));

/** The fields of settings; those that are rarely needed are folded. With `size` that stands for the cores and the memory. */
export function fieldsOf(settings: readonly Setting[], size?: FieldOf<string, Value>): Entry<Values>[] {
  const fields = (rare: boolean) =>
    settings
      .filter((s) => (s.group === "advanced") === rare && !(size && s.name === MEMORY))
      .map((s) => (size && s.name === CPUS ? size : fieldOf(s)));
  const rare = fields(true);
  return [...fields(false), ...(rare.length > 0 ? [{ summary: t`Advanced`, fields: rare }] : [])];
}

const fieldOf = (s: Setting): FieldOf<string, Value> => ({
  ...s,
  type: s.type === "size" ? "text" : s.type === "list" ? "area" : s.type,
  mono: s.type === "text" || s.type === "size" || s.type === "list",
  ...(s.type === "number" && { input: { className: "max-w-48" } }),
});

// Where a place has sizes, its cores and memory are one choice among them.
const CPUS = "default_cpus";
const MEMORY = "default_memory_mb";
export const SIZE = "size";

/** The size that settings say by its cores and memory; undefined where they say none. */
export function sizeOf(settings: readonly Setting[]): { size: string; locked: boolean } | undefined {
  const [cpus, memory] = [CPUS, MEMORY].map((name) => settings.find((s) => s.name === name));
  if (!cpus || !memory) return undefined;
  const size = sizeId({ cpus: Number(cpus.value), memory_mb: Number(memory.value) });
  return { size, locked: cpus.locked || memory.locked };
}

/** Values under the names the server knows: a size is its cores and its memory. */
export function named({ [SIZE]: size, ...rest }: Partial<Values>): Values {
  const [cpus, memory] = String(size ?? "")
    .split("x")
    .map(Number);
  return { ...rest, ...(size !== undefined && { [CPUS]: cpus, [MEMORY]: memory }) } as Values;
}

/** What an hour costs of the size that workspaces have which ask for none. */
export const priceOf = (place: { sizes: readonly Size[]; price_nano_per_hour: number } | undefined): number =>
  place?.sizes.find((x) => x.default)?.price_nano_per_hour ?? place?.price_nano_per_hour ?? 0;

const HOURS = 730; // of a month on average

/** What sandboxes that wait ahead of time cost. */
export const poolCostWords = (price: number, least: number): string =>
  t`${least} ready at the default size: ${hourly(price * least)} an hour, about ${usd(price * least * HOURS)} a month.`;
