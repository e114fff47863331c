import { describe, expect, it } from "vitest";
import { ApiError } from "@/api/problem";
import type { UsageFigures, UsageItem } from "./api";
import type { Price } from "./operator-api";
import { boundText, planPrice, planWords, readBound } from "./plans";
import { books, hourOf } from "./prices";
import { refusalOf } from "./refusal";
import { bars, modelWords, nameOf, sorted, whole } from "./usage";
import { alertWords, budgetStatus, costNow, graceWords, rateWords, readThresholds, whenWords } from "./words";

const NOW = Date.UTC(2026, 10, 22, 15, 30);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const figures = (cost: number, tokens = 0, over: Partial<UsageFigures> = {}): UsageFigures => ({
  run_ms: 1000,
  metered_ms: 1000,
  vcpu_ms: 2000,
  mib_ms: 1,
  cost_nano: cost,
  tokens_cost_nano: tokens,
  tokens_unknown: 0,
  input_tokens: 0,
  output_tokens: 0,
  ...over,
});
const item = (key: string, name: string, cost: number, tokens = 0): UsageItem => ({
  key,
  name,
  ...figures(cost, tokens),
});

describe("usage", () => {
  it("has a bar for each day up to now, the last one open", () => {
    const from = Date.UTC(2026, 10, 1);
    const list = bars([item(String(from + 2 * DAY), "", 7, 5)], { from, to: Date.UTC(2026, 11, 1) }, "day", NOW);
    expect(list).toHaveLength(22);
    expect(list[2]).toMatchObject({ short: "3 Nov", values: [7, 5], open: false });
    expect(list[3]?.values).toEqual([0, 0]);
    expect(list[21]?.open).toBe(true);
    expect(bars([], { from, to: from + DAY }, "hour", NOW)).toHaveLength(24);
  });

  it("keeps the unknown unknown", () => {
    expect(modelWords(figures(0, 2_000_000_000))).toBe("$2.00");
    expect(modelWords(figures(0, 0, { tokens_unknown: 3 }))).toBe("unknown");
    expect(modelWords(figures(0, 2_000_000_000, { tokens_unknown: 1 }))).toBe("$2.00 + unknown");
    expect(whole(figures(3, 4))).toBe(7);
  });

  it("names who is gone and what is not to be seen", () => {
    expect(nameOf(item("usr_1", "", 0), "user")).toBe("A deleted user");
    expect(nameOf(item("", "", 0), "user")).toBe("The server itself");
    expect(nameOf(item("private", "", 0), "workspace")).toBe("Others' private workspaces");
    expect(nameOf(item("e2b", "", 0), "executor")).toBe("e2b");
  });

  it("puts the dearest first, and time in its order", () => {
    const list = [item("1", "b", 1), item("2", "a", 9), item("3", "c", 2, 8)];
    expect(sorted(list, "user", undefined).map((i) => i.name)).toEqual(["c", "a", "b"]);
    expect(sorted(list, "user", "name").map((i) => i.name)).toEqual(["a", "b", "c"]);
    expect(sorted(list, "user", "cost_nano").map((i) => i.name)).toEqual(["a", "c", "b"]);
    expect(sorted([...list].reverse(), "day", undefined).map((i) => i.key)).toEqual(["1", "2", "3"]);
  });
});

describe("budgets", () => {
  it("are shown by mark and word, near ends as a duration", () => {
    expect(budgetStatus({ state: "stopped" }).mark).toBe("failed");
    expect(whenWords(NOW + 2 * HOUR, NOW)).toBe("in 2 h");
    expect(whenWords(Date.UTC(2026, 11, 1), NOW)).toBe("1 Dec 2026, 00:00 UTC");
    expect(rateWords({ rate_nano_per_hour: 420_000_000, exhausted_at: NOW + 5 * HOUR }, NOW)).toBe(
      "$0.42 an hour now; at this rate it is spent in 5 h",
    );
    expect(rateWords({ rate_nano_per_hour: 0, exhausted_at: null }, NOW)).toBeUndefined();
    expect([graceWords(300), graceWords(60), graceWords(90), graceWords(0)]).toEqual([
      "after 5 minutes",
      "after 1 minute",
      "after 90 seconds",
      "immediately",
    ]);
  });

  it("read thresholds as people type them", () => {
    expect(readThresholds("100, 80 90;80")).toEqual([80, 90, 100]);
    expect(readThresholds("50%")).toEqual([50]);
    expect(readThresholds("")).toEqual([]);
    for (const bad of ["0", "101", "many", "-5", "8.5"]) expect(readThresholds(bad)).toBeUndefined();
  });

  it("show warnings in their unit", () => {
    const alert = { percent: 90, noted_at: 0, period: "2026-11", scope_id: "" };
    expect(alertWords({ ...alert, scope: "team_budget", used: 450e9, limit: 500e9 })).toBe(
      "90 % of the budget ($450.00 of $500.00)",
    );
    expect(alertWords({ ...alert, scope: "user_hours", used: 9 * HOUR, limit: 10 * HOUR })).toBe(
      "90 % of somebody's hours (9 h of 10 h)",
    );
    expect(alertWords({ ...alert, scope: "user_hours", used: 9 * HOUR, limit: 10 * HOUR }, "Ana")).toMatch(
      /of Ana's hours/,
    );
  });

  it("go on between two answers of the server, but not for ever", () => {
    expect(costNow(100, 0, NOW - HOUR, NOW)).toBe(100);
    expect(costNow(100, 3600, NOW - 1000, NOW)).toBe(101);
    expect(costNow(100, 3600, NOW - DAY, NOW)).toBe(3700);
    expect(costNow(100, 3600, 0, NOW)).toBe(100);
  });
});

describe("prices", () => {
  const price = (from: number, vcpu: number): Price => ({
    id: String(from),
    executor: "e2b",
    vcpu_second_nano: vcpu,
    gib_second_nano: 4500,
    metered: true,
    effective_from: from,
    holds: false,
    created_by: "",
    created_at: 0,
  });

  it("are what holds, what comes and what was", () => {
    const [book] = books([price(NOW + 2 * DAY, 3), price(1, 1), price(NOW + DAY, 2), price(2, 14_000)], NOW);
    expect(book?.now?.vcpu_second_nano).toBe(14_000);
    expect(book?.coming.map((p) => p.vcpu_second_nano)).toEqual([2, 3]);
    expect(book?.past.map((p) => p.vcpu_second_nano)).toEqual([1]);
  });

  it("make an hour of a size", () => {
    expect(hourOf(price(0, 14_000), 2, 2048)).toBe(133_200_000);
    expect(hourOf(price(0, 14_000), 1, 512)).toBe(58_500_000);
  });
});

describe("plans", () => {
  const none = {
    hours_month: null,
    concurrent: null,
    concurrent_team: null,
    cpus: null,
    memory_mb: null,
    session_minutes: null,
    creations_hour: null,
    seats: null,
  };

  it("say what they bind", () => {
    expect(planWords(none)).toBe("no limits");
    expect(planWords({ ...none, hours_month: 10, cpus: 1, memory_mb: 512, session_minutes: 60 })).toBe(
      "10 hours a month each, up to 1 core, 512 MB of memory, runs of 1 hour",
    );
    expect(planPrice({ seat_month_nano: 20e9, trial_days: 14, metered_usage: true })).toBe(
      "$20.00 per member per month, plus usage, 14-day trial",
    );
  });

  it("are read as they are shown", () => {
    for (const v of [null, 0, 512, 2048]) expect(readBound("memory_mb", boundText("memory_mb", v))).toBe(v);
    expect(readBound("cpus", "1.5")).toBeUndefined();
    expect(readBound("cpus", "two")).toBeUndefined();
  });
});

describe("refusals", () => {
  it("carry their figures, and nothing that is none", () => {
    const e = new ApiError(429, {
      code: "concurrency_limit",
      message: "…",
      details: { scope: "user", used: 3, limit: 3, unit: "sandboxes", resets_at: null, needed: 1 },
      request_id: "",
    });
    expect(refusalOf(e)).toMatchObject({ used: 3, limit: 3, unit: "sandboxes", resetsAt: undefined });
    expect(refusalOf(new ApiError(402, { code: "toString", message: "", request_id: "" }))).toBeUndefined();
  });
});
