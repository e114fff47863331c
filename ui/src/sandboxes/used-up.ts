import { t } from "@lingui/core/macro";
import type { MyQuota } from "@/costs/api";
import { isCode, type Refusal, TITLES } from "@/costs/refusal";
import type { Place, Size } from "./remote";

export const HOUR = 3_600_000;

/** Why a start would be refused now by what is used already; undefined while it would not. */
export function usedUp(place: Place, mine: MyQuota | undefined): Size["refused"] {
  if (place.budget_left_nano !== null && place.budget_left_nano <= 0)
    return { code: "budget_exceeded", reason: t`This month's budget is spent`, hint: "" };
  if (!mine) return undefined;
  const { hours_month: hours, concurrent } = mine.effective;
  if (hours !== null && mine.used.hours_ms + mine.used.reserved_ms >= hours * HOUR)
    return { code: "quota_exceeded", reason: t`Your hours for this month are used up`, hint: "" };
  if (concurrent !== null && mine.used.running >= concurrent)
    return {
      code: "concurrency_limit",
      reason: t`You have reached your limit of running sandboxes`,
      hint: t`Pause one to start this one`,
    };
  return undefined;
}

/** Whether work can go on in a place of this server although something is used up: it costs nothing, and its time may count like any other's. */
export const localHelps = (code: string, place: Pick<Place, "kind"> | undefined, mine: MyQuota | undefined): boolean =>
  !place || code === "budget_exceeded" || !mine?.counted_places.includes(place.kind);

/** The same in figures, for a start whose refusal nobody here has heard. */
export function usedUpRefusal(place: Place | undefined, mine: MyQuota | undefined): Refusal | undefined {
  const why = place && usedUp(place, mine);
  if (!why || !isCode(why.code)) return undefined;
  const refusal = { code: why.code, title: TITLES[why.code], scope: "" };
  if (!mine || why.code === "budget_exceeded") return refusal;
  const { hours_month: hours, concurrent } = mine.effective;
  if (why.code === "quota_exceeded" && hours !== null)
    return {
      ...refusal,
      scope: "user_hours",
      used: mine.used.hours_ms,
      limit: hours * HOUR,
      unit: "ms",
      resetsAt: mine.resets_at,
    };
  return { ...refusal, used: mine.used.running, limit: concurrent ?? undefined, unit: "sandboxes" };
}
