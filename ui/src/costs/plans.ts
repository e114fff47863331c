import { plural, t } from "@lingui/core/macro";
import { usd } from "@/format/money";
import { mb } from "@/format/size";
import { count } from "@/format/text";
import { minutes } from "@/format/time";
import type { Quota } from "./api";
import type { Plan } from "./operator-api";

/** The fields of a plan, each with its input format. Memory is entered in GB. */
export const FIELDS: readonly { field: keyof Quota; label: string; hint?: string }[] = [
  { field: "hours_month", label: t`Hours a month`, hint: t`each person` },
  { field: "concurrent", label: t`Sandboxes at once`, hint: t`each person` },
  { field: "concurrent_team", label: t`Sandboxes at once`, hint: t`the whole team` },
  { field: "cpus", label: t`Cores`, hint: t`the largest size` },
  { field: "memory_mb", label: t`Memory in GB`, hint: t`the largest size` },
  { field: "session_minutes", label: t`Longest run in minutes` },
  { field: "creations_hour", label: t`Sandboxes created per hour`, hint: t`each person` },
  { field: "seats", label: t`Members` },
];

/** A bound as a field shows it; empty does not bind. */
export const boundText = (f: keyof Quota, v: number | null): string =>
  v === null ? "" : String(f === "memory_mb" ? v / 1024 : v);

/** What was typed as a bound: null for an empty field, undefined for what is none. */
export function readBound(f: keyof Quota, text: string): number | null | undefined {
  const t = text.trim().replaceAll(",", "");
  if (t === "") return null;
  if (!/^\d{1,7}(\.\d{1,3})?$/.test(t)) return undefined;
  const n = f === "memory_mb" ? Number(t) * 1024 : Number(t);
  return Number.isInteger(n) ? n : undefined;
}

/** What a plan allows, in a line. */
export function planWords(q: Quota): string {
  const parts = [
    q.hours_month !== null && t`${plural(q.hours_month, { one: "# hour", other: "# hours" })} a month each`,
    q.concurrent !== null && t`${count(q.concurrent)} at once each`,
    q.concurrent_team !== null && t`${count(q.concurrent_team)} in the team`,
    q.cpus !== null && t`up to ${plural(q.cpus, { one: "# core", other: "# cores" })}`,
    q.memory_mb !== null && t`${mb(q.memory_mb)} of memory`,
    q.session_minutes !== null && q.session_minutes > 0 && t`runs of ${minutes(q.session_minutes)}`,
    q.creations_hour !== null && t`${count(q.creations_hour)} created per hour each`,
    q.seats !== null && plural(q.seats, { one: "# member", other: "# members" }),
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : t`no limits`;
}

/** What a plan costs. */
export function planPrice(p: Pick<Plan, "seat_month_nano" | "trial_days" | "metered_usage">): string {
  const seat = p.seat_month_nano > 0 ? t`${usd(p.seat_month_nano)} per member per month` : t`free of charge`;
  return [seat, p.metered_usage && t`plus usage`, p.trial_days > 0 && t`${p.trial_days}-day trial`]
    .filter(Boolean)
    .join(", ");
}
