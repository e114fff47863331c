import { expect, it } from "vitest";
import { latencyOf, measure, nearest, nextRegion, type Region, regionWords } from "./regions";
import type { Place } from "./remote";

const region = (executor: string, latency_ms: number, probe_url = ""): Region => ({
  executor,
  name: executor,
  available: true,
  reason: "",
  hint: "",
  latency_ms,
  probe_url,
  price_nano_per_hour: 0,
});

it("takes what this browser measured before what the server did, and what nobody measured last", () => {
  const all = [region("e2b@main", 20), region("e2b@eu", 90), region("e2b@us", 0)];
  expect(nearest(all, undefined)?.executor).toBe("e2b@main");
  expect(nearest(all, { "e2b@eu": 12 })?.executor).toBe("e2b@eu");
  expect(latencyOf(all[2]!, undefined)).toBe(0);
  expect(regionWords(all[1]!, { "e2b@eu": 12 })).toBe("12 ms from here");
  expect(regionWords(all[2]!, undefined)).toBe("not measured");
});

it("leaves out what it cannot reach", async () => {
  const get = (async (url: string) => {
    if (url.includes("down")) throw new TypeError("Failed to fetch");
    return new Response();
  }) as unknown as typeof fetch;
  const ms = await measure([region("a", 0, "https://up"), region("b", 0, "https://down"), region("c", 0)], get);
  expect(Object.keys(ms)).toEqual(["a"]);
});

it("offers the nearest other region that serves", () => {
  const all = [region("e2b@main", 20), region("e2b@eu", 90), region("e2b@us", 40)];
  const places = [{ kind: "e2b", regions: all }, { kind: "local" }] as Place[];
  expect(nextRegion(places, "e2b", undefined)?.executor).toBe("e2b@us");
  expect(nextRegion(places, "e2b@us", undefined)?.executor).toBe("e2b@main");
  all[0]!.available = false;
  expect(nextRegion(places, "e2b@us", undefined)?.executor).toBe("e2b@eu");
  expect(nextRegion(places, "local", undefined)).toBeUndefined();
});
