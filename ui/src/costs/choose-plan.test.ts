import { expect, it } from "vitest";
import { plansToChoose } from "./choose-plan";
import type { Plan, PlanList } from "./operator-api";

const plan = (id: string, hours_month: number | null): Plan => ({
  id,
  name: id.toUpperCase(),
  description: "",
  position: 1,
  offered: true,
  hours_month,
  concurrent: null,
  concurrent_team: null,
  cpus: null,
  memory_mb: null,
  session_minutes: null,
  creations_hour: null,
  seats: null,
  seat_month_nano: 0,
  trial_days: 0,
  metered_usage: false,
});
const list: PlanList = {
  items: [plan("enterprise", null), plan("own", 5), plan("free", 10), plan("pro", 100)],
  default_plan: "enterprise",
  default_locked: false,
  default_chosen: false,
};

it("offers the plans of the program with their hours while nobody chose one", () => {
  expect(plansToChoose(list)).toEqual([
    { id: "free", name: "FREE", hours: "10 h a month" },
    { id: "pro", name: "PRO", hours: "100 h a month" },
    { id: "enterprise", name: "ENTERPRISE", hours: "no limit" },
  ]);
});

it("asks for nothing that is chosen, locked or not known yet", () => {
  expect(plansToChoose(undefined)).toEqual([]);
  expect(plansToChoose({ ...list, default_chosen: true })).toEqual([]);
  expect(plansToChoose({ ...list, default_locked: true })).toEqual([]);
});
