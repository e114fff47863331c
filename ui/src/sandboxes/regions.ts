import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { hourly } from "@/format/money";
import type { Place } from "./remote";

export type Region = Schemas["PlaceRegion"];
export type Latencies = Record<string, number>;

const TRIES = 3;
const PATIENCE_MS = 4000;

/** The round trip to an address in ms; undefined where it cannot be reached. The first request also connects, so that the best of some counts. */
async function roundTrip(url: string, get: typeof fetch): Promise<number | undefined> {
  let best: number | undefined;
  for (let n = 0; n < TRIES; n++) {
    const begun = performance.now();
    try {
      await get(url, {
        mode: "no-cors",
        cache: "no-store",
        credentials: "omit",
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
    } catch {
      return best;
    }
    best = Math.min(best ?? Number.POSITIVE_INFINITY, performance.now() - begun);
  }
  return best;
}

/** Measures the regions that say an address, by the name each has in requests. */
export async function measure(regions: readonly Region[], get: typeof fetch = fetch): Promise<Latencies> {
  const all = await Promise.all(
    regions.map(async (r) => [r.executor, r.probe_url ? await roundTrip(r.probe_url, get) : undefined] as const),
  );
  return Object.fromEntries(
    all.filter((x): x is [string, number] => x[1] !== undefined).map(([k, ms]) => [k, Math.max(1, Math.round(ms))]),
  );
}

/** All regions of places that have several. */
const regionsOf = (places: readonly Place[] | undefined): Region[] => places?.flatMap((p) => p.regions ?? []) ?? [];

/** The round trips from this browser; they are measured once in a while, and only where there are several regions. */
export function useLatencies(places: readonly Place[] | undefined): Latencies | undefined {
  const regions = regionsOf(places);
  return useQuery({
    queryKey: ["regions", regions.map((r) => r.probe_url)],
    queryFn: () => measure(regions),
    enabled: regions.length > 0,
    staleTime: 5 * 60_000,
    retry: false,
  }).data;
}

/** The round trip that decides: the browser's, else the server's; 0 = nobody measured. */
export const latencyOf = (r: Region, mine: Latencies | undefined): number => mine?.[r.executor] ?? r.latency_ms;

/** The region that a place means while nobody names one: the nearest. */
export function nearest(regions: readonly Region[], mine: Latencies | undefined): Region | undefined {
  const far = (r: Region) => latencyOf(r, mine) || Number.POSITIVE_INFINITY;
  return [...regions].sort((a, b) => (far(a) === far(b) ? 0 : far(a) - far(b)))[0];
}

/** The nearest other region that serves, for a workspace whose own region does not. */
export function nextRegion(
  places: readonly Place[] | undefined,
  kind: string,
  mine: Latencies | undefined,
): Region | undefined {
  const base = kind.split("@")[0]!;
  const own = kind === base ? `${base}@main` : kind; // as requests name it
  const regions = places?.find((p) => p.kind === base)?.regions ?? [];
  return nearest(
    regions.filter((r) => r.available && r.executor !== own),
    mine,
  );
}

/** How far a region is and what it costs, in words. */
export const regionWords = (r: Region, mine: Latencies | undefined): string =>
  [
    latencyOf(r, mine) > 0
      ? t`${latencyOf(r, mine)} ms from ${mine?.[r.executor] ? t`here` : t`the server`}`
      : t`not measured`,
    r.price_nano_per_hour > 0 ? t`${hourly(r.price_nano_per_hour)} an hour` : "",
  ]
    .filter(Boolean)
    .join(", ");
