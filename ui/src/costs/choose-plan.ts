import { t } from "@lingui/core/macro";
import { BUILT_IN_PLANS, type PlanList } from "./operator-api";

/** The built-in plans an operator chooses from; empty once a plan is chosen or config.json names one. */
export function plansToChoose(list: PlanList | undefined): { id: string; name: string; hours: string }[] {
  if (!list || list.default_chosen || list.default_locked) return [];
  return BUILT_IN_PLANS.flatMap((id) => list.items.find((p) => p.id === id) ?? []).map((p) => ({
    id: p.id,
    name: p.name,
    hours: p.hours_month === null ? t`no limit` : t`${p.hours_month} h a month`,
  }));
}
