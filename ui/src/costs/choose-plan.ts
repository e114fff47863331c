import type { PlanList } from "./instance";

/** The built-in plans a new server chooses between, in order. */
const OFFERED = ["free", "pro", "enterprise"];

/** What an operator is asked to choose between; empty when somebody chose, or config.json did. */
export function plansToChoose(list: PlanList | undefined): { id: string; name: string; hours: string }[] {
  if (!list || list.default_chosen || list.default_locked) return [];
  return OFFERED.flatMap((id) => list.items.find((p) => p.id === id) ?? []).map((p) => ({
    id: p.id,
    name: p.name,
    hours: p.hours_month === null ? "no limit" : `${p.hours_month} h a month`,
  }));
}
