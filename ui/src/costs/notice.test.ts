import { describe, expect, it } from "vitest";
import type { Budget, MyQuota } from "./api";
import { noticesOf } from "./notice";

const NANO = 1e9;
const budget = (state: Budget["status"]["state"], spent: number, alerts: Partial<Budget["alerts"][number]>[]): Budget =>
  ({
    limit_nano: 50 * NANO,
    notify: { app: true, mail: true, webhooks: true },
    status: { state, spent_nano: spent * NANO, percent: (spent / 50) * 100 },
    alerts: alerts.map((a) => ({ scope: "team_budget", percent: 80, used: 0, limit: 50 * NANO, noted_at: 1, ...a })),
  }) as unknown as Budget;
const hours = (percent: number): MyQuota =>
  ({
    percent,
    effective: { hours_month: 10 },
    used: { hours_ms: percent * 360_000, running: 1 },
    resets_at: 5,
  }) as unknown as MyQuota;

describe("the notices above every page", () => {
  it("says nothing while all is well", () => {
    expect(noticesOf(undefined, undefined)).toEqual([]);
    expect(noticesOf(budget("ok", 10, []), hours(79))).toEqual([]);
    // Raised since the notice.
    expect(noticesOf(budget("ok", 10, [{}]), undefined)).toEqual([]);
  });

  it("shows a threshold with figures, once for each time it was passed", () => {
    const [n] = noticesOf(budget("warned", 41, [{}]), undefined);
    expect(n?.text).toBe("$41.00 of the team's budget of $50.00 is spent this month (82 %).");
    expect([n?.id, n?.grave]).toEqual(["team_budget:80:1", false]);
    expect(noticesOf(budget("warned", 46, [{}, { percent: 90, noted_at: 2 }]), undefined)[0]?.id).toBe(
      "team_budget:90:2",
    );
  });

  it("puts first what pauses work", () => {
    const both = noticesOf(budget("warned", 41, [{}]), hours(100));
    expect(both.map((n) => n.grave)).toEqual([true, false]);
    expect(both[0]?.text).toContain("10 of your 10 hours");
    expect(noticesOf(budget("stopped", 50, [{ percent: 100 }]), undefined)[0]?.text).toContain("are paused until");
  });

  it("is silent where the team wants no notice in the app", () => {
    const b = budget("warned", 41, [{}]);
    b.notify.app = false;
    expect(noticesOf(b, undefined)).toEqual([]);
  });
});
