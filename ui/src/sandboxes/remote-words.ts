import { plural, t } from "@lingui/core/macro";
import { hourly, usd } from "@/format/money";
import { mb } from "@/format/size";
import { bytes, count, sentence } from "@/format/text";
import { clock, secondsAgo } from "@/format/time";
import type { MarkKind } from "@/kit/mark";
import type { MakingStep, Place, RemoteSandbox, Size, SyncSummary } from "./remote";
import { BOUNDARIES } from "./words";

/** A size as people choose it: "2 cores, 4 GB". */
export const sizeName = (s: { cpus: number; memory_mb: number }): string =>
  `${count(s.cpus)} ${s.cpus === 1 ? "core" : "cores"}, ${mb(s.memory_mb)}`;

/** What tells sizes apart in a form. */
export const sizeId = (s: { cpus: number; memory_mb: number }): string => `${s.cpus}x${s.memory_mb}`;

/** Whether who asks can have a size: it is there, and no quota keeps them from it. */
export const canHave = (s: Size): boolean => s.available && !s.refused;

/** Why nothing of a place can be had although it is there: every size is refused. undefined when something can. */
export function refusedWhole(place: Place | undefined): Size["refused"] {
  const there = place?.sizes.filter((s) => s.available) ?? [];
  if (!place?.available || !place.allowed || there.length === 0 || there.some(canHave)) return undefined;
  return (there.find((s) => s.default) ?? there[0])?.refused ?? undefined;
}

/** The size that is chosen: the one asked for where it can be had, else the place's own, else the largest that can. */
export function chosenSize(place: Place | undefined, id: string | undefined): Size | undefined {
  const can = place?.sizes.filter(canHave) ?? [];
  const own = place?.sizes.find((s) => s.default);
  const less = own && !canHave(own) ? can.filter((s) => s.cpus <= own.cpus).at(-1) : undefined;
  if (less && !can.some((s) => sizeId(s) === id)) return less;
  return can.find((s) => sizeId(s) === id) ?? can.find((s) => s.default) ?? can[0];
}

/** The size limits lead to: the smallest that can be had with as much as they say, the place's own where they say nothing. */
export function sizeForLimits(place: Place, l: { cpus: number; memory_mb: number }): Size | undefined {
  const can = place.sizes.filter(canHave);
  if (l.cpus === 0 && l.memory_mb === 0) return can.find((s) => s.default);
  return can.find((s) => s.cpus >= l.cpus && s.memory_mb >= l.memory_mb);
}

/** What an hour in a place costs, and how much may still be spent; "" where it costs nothing. */
export function costWords(place: Place, size: Size | undefined): string {
  const price = size?.price_nano_per_hour ?? place.price_nano_per_hour;
  const parts = [
    price > 0 && t`${hourly(price)} an hour while it runs`,
    typeof place.budget_left_nano === "number" && budgetWords(place.budget_left_nano),
  ].filter(Boolean);
  return parts.join(", ");
}

const budgetWords = (left: number): string =>
  left > 0 ? t`${usd(left)} of this month's budget left` : t`this month's budget is spent`;

/** Finds a command in a message, in backquotes or starting like ours, so the user can copy it. */
export function commandIn(words: string): string {
  return /`([^`]+)`/.exec(words)?.[1] ?? /\bparawork [a-z0-9][^.;"'`]*/.exec(words)?.[0].trim() ?? "";
}

/** The place a workspace falls back to: the strongest on this server that may be used. */
export function fallbackPlace<P extends Place>(places: readonly P[]): P | undefined {
  const strength = (p: Place) => BOUNDARIES.findIndex((b) => b.value === p.boundary);
  return places.filter((p) => !p.own_disk && p.available && p.allowed).sort((a, b) => strength(b) - strength(a))[0];
}

/** What a workspace gives up when it starts on this server instead, a sentence each. */
export function fallbackChanges(from: Place, to: Place): string[] {
  return [
    t`Its code stays on this server instead of moving to ${from.name}.`,
    t`Isolation: ${lower(to.isolation || to.boundary_name)}`.replace(/\.?$/, "."),
    from.price_nano_per_hour > 0 || from.sizes.some((s) => s.price_nano_per_hour > 0) ? t`It has no hourly cost.` : "",
  ].filter(Boolean);
}

const lower = (s: string): string => (/^[A-Z][a-z]/.test(s) ? s[0]!.toLowerCase() + s.slice(1) : s);

/** How far a step is: "12 MB of 80 MB", "12 MB", or nothing. */
export function progressWords(s: Pick<MakingStep, "done" | "all">): string {
  if (s.all > 0) return t`${bytes(Math.min(s.done, s.all))} of ${bytes(s.all)}`;
  return s.done > 0 ? bytes(s.done) : "";
}

/** The part that is done, 0 to 1; undefined while all is not known. */
export const progressPart = (s: Pick<MakingStep, "done" | "all">): number | undefined =>
  s.all > 0 ? Math.min(1, Math.max(0, s.done / s.all)) : undefined;

export interface Said {
  mark: MarkKind;
  text: string;
}

/** The sync state in a few words. */
export function syncSaid(s: Pick<SyncSummary, "state" | "synced_at" | "pending" | "reason">, now: number): Said {
  const last = s.synced_at ? secondsAgo(s.synced_at, now) : "";
  const also = (state: string): string =>
    [state, s.pending > 0 && plural(s.pending, { one: "# file left", other: "# files left" }), last && t`last ${last}`]
      .filter(Boolean)
      .join(", ");
  switch (s.state) {
    case "synced":
      return { mark: "done", text: last ? t`Synced ${last}` : t`Synced` };
    case "syncing":
      return { mark: "running", text: also(t`Syncing`) };
    case "behind":
      return { mark: "needs", text: also(t`Sync is behind`) };
  }
}

/** Whether a paused sandbox wakes automatically when it is needed. */
export const sleeps = (s: RemoteSandbox): boolean =>
  s.state === "paused" && (s.paused_for === "idle" || s.paused_for === "lease" || s.paused_for === "ceiling");

/** A sandbox's state by shape and word. */
export function sandboxSaid(s: RemoteSandbox): Said {
  switch (s.state) {
    case "starting":
      return { mark: "setup", text: t`Starting` };
    case "running":
      return { mark: "running", text: t`Running` };
    case "paused":
      return { mark: "stopped", text: sleeps(s) ? t`Asleep` : t`Paused` };
    case "stopping":
      return { mark: "setup", text: t`Ending` };
    case "gone":
      return { mark: "stopped", text: t`Ended` };
    case "failed":
      return { mark: "failed", text: t`Failed` };
  }
}

/** Why a sandbox is paused and how it continues, for the line below a terminal. */
export function stillWords(s: RemoteSandbox, now: number): string {
  if (!sleeps(s)) return t`${sentence(s.state_reason) || t`Paused.`} Press Wake to continue.`;
  return [
    s.paused_at ? t`Asleep since ${clock(s.paused_at, now)}.` : t`Asleep.`,
    s.paused_for === "ceiling" && t`Its run reached the time limit of its place.`,
    t`It wakes when you type or press Wake.`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** Who raises what is used up, and where. */
export function upgradeWords(reason: string, place: string, operator: boolean): string {
  if (reason === "budget")
    return operator
      ? t`Raise the monthly budget under Settings, Places, or wait for the next month.`
      : t`Ask an operator of this server to raise the monthly budget, or wait for the next month.`;
  return operator
    ? t`The plan belongs to the ${place} account whose key this server uses. Raise it in ${place}'s dashboard, under Billing; the new limits apply immediately.`
    : t`The plan belongs to the ${place} account of this server. Ask an operator to raise it in ${place}'s dashboard.`;
}
