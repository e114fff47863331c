import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { hourly, usd } from "@/format/money";
import { remoteKeys } from "@/sandboxes/remote";

export type InstancePlaces = Schemas["InstancePlaces"];
export type InstancePatch = Schemas["InstancePlacesPatch"];
export type PlaceTest = Schemas["PlaceTest"];

export const instanceQuery = () =>
  queryOptions({ queryKey: remoteKeys.instance, queryFn: () => data(api.GET("/instance/places")) });

export const saveInstance = (patch: InstancePatch) => data(api.PUT("/instance/places", { body: patch }));

/** Tries a key and addresses, those that are kept or others; nothing is started. */
export const testE2B = (trial: Schemas["E2BTrial"]) => data(api.POST("/instance/places/e2b/test", { body: trial }));

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
