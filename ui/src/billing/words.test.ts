import { describe, expect, test } from "vitest";
import type { Billing, BillingPlan } from "./api";
import { allows, amount, owing, price, stands } from "./words";

const plan: BillingPlan = {
  id: "pro",
  name: "Pro",
  description: "",
  seat_month_nano: 20e9,
  trial_days: 0,
  metered_usage: false,
  hours_month: 100,
  concurrent: 1,
  concurrent_team: null,
  cpus: 2,
  memory_mb: 8192,
  session_minutes: null,
  members: null,
};

const billing: Billing = {
  plan,
  plans: [],
  payments: true,
  test_mode: true,
  can_manage: true,
  given: false,
  status: "active",
  subscribed_plan_id: "pro",
  seats: { used: 3, paid: 3 },
  trial_ends_at: null,
  period_end: null,
  cancel_at: null,
  past_due: null,
  suspended_for: null,
  synced_at: null,
  invoices: [],
};

describe("words of billing", () => {
  test("what a plan allows", () => {
    expect(allows(plan)).toEqual(["100 hours a month for each member", "1 sandbox at once", "Up to 2 CPUs, 8 GiB"]);
    expect(allows({ ...plan, hours_month: null, concurrent: 3, cpus: null, members: 5, metered_usage: true })).toEqual([
      "Hours without a quota",
      "3 sandboxes at once",
      "Up to 5 members",
      "Usage is billed on top",
    ]);
  });
  test("prices and amounts", () => {
    expect(price(plan)).toBe("$20.00 per member per month");
    expect(price({ ...plan, seat_month_nano: 0 })).toBe("No charge");
    expect(amount(123456, "usd")).toBe("$1,234.56");
    expect(amount(500, "jpy")).toBe("¥500");
    expect(amount(500, "!")).toBe("500 !");
  });
  test("a payment that is due", () => {
    const due = (days_left: number, can_manage: boolean) =>
      owing({ ...billing, can_manage, past_due: { since: 1, ends_at: 2, days_left } })?.text;
    expect(owing(billing)).toBeUndefined();
    expect(due(1, true)).toBe("The team keeps its plan for 1 more day. Pay the invoice or change the payment method.");
    expect(due(4, false)).toBe("The team keeps its plan for 4 more days. Ask an owner or admin of the team to pay.");
    expect(due(0, true)).toContain("no longer has its paid plan");
  });
  test("how a subscription stands", () => {
    expect(stands(billing, 0)).toBeUndefined();
    expect(stands({ ...billing, status: "paused" }, 0)).toContain("Manage payment");
    expect(stands({ ...billing, cancel_at: 1_795_000_000_000 }, 0)).toMatch(/^It ends on /);
  });
});
