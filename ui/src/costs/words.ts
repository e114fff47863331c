import { plural, t } from "@lingui/core/macro";
import { hourly, usd } from "@/format/money";
import { until } from "@/format/time";
import type { MarkKind } from "@/kit/mark";
import { momentUtc, spell } from "./amounts";
import type { Budget, BudgetStatus, LimitAlert } from "./api";

const DAY = 86_400_000;

/** How a budget stands, by shape and word. */
export function budgetStatus(s: Pick<BudgetStatus, "state">): { mark: MarkKind; word: string } {
  switch (s.state) {
    case "ok":
      return { mark: "done", word: t`Within the budget` };
    case "warned":
      return { mark: "needs", word: t`Nearly spent` };
    case "grace":
      return { mark: "failed", word: t`Spent: paid work is about to be paused` };
    case "stopped":
      return { mark: "failed", word: t`Spent: paid work is paused` };
    case "overage":
      return { mark: "needs", word: t`Over budget, as allowed` };
  }
}

/** When a moment is, near ones by how long it takes: "in 2 h 5 min", "1 Dec 2026, 00:00 UTC". */
export const whenWords = (at: number, now: number): string => (at - now < DAY ? until(at, now) : momentUtc(at));

/** The spending rate and when the budget ends; undefined while nothing paid is running. */
export function rateWords(
  s: Pick<BudgetStatus, "rate_nano_per_hour" | "exhausted_at">,
  now: number,
): string | undefined {
  if (s.rate_nano_per_hour <= 0) return undefined;
  const end = s.exhausted_at === null ? "" : t`; at this rate it is spent ${whenWords(s.exhausted_at, now)}`;
  return t`${hourly(s.rate_nano_per_hour)} an hour now${end}`;
}

/** A threshold that was passed: "90 % of the team's budget ($450.00 of $500.00)". */
export function alertWords(a: LimitAlert, who = "somebody"): string {
  switch (a.scope) {
    case "user_hours":
      return t`${a.percent} % of ${who}'s hours (${spell(a.used)} of ${spell(a.limit)})`;
    case "team_overage":
      return t`${a.percent} % of what may be spent beyond the budget (${usd(a.used)} of ${usd(a.limit)})`;
    case "instance_budget":
      return t`${a.percent} % of the server's budget (${usd(a.used)} of ${usd(a.limit)})`;
    default:
      return t`${a.percent} % of the budget (${usd(a.used)} of ${usd(a.limit)})`;
  }
}

/** Thresholds as they were typed: whole percents from 1 to 1000, in order and once each; undefined when something else was typed. */
export function readThresholds(text: string): number[] | undefined {
  const words = text.split(/[\s,;%]+/).filter(Boolean);
  const list = words.map((w) => (/^\d{1,4}$/.test(w) ? Number(w) : Number.NaN));
  if (list.some((n) => !(n >= 1 && n <= 100))) return undefined;
  return [...new Set(list)].sort((a, b) => a - b);
}

/** Minutes of grace in words. */
export const graceWords = (seconds: number): string =>
  seconds === 0
    ? t`immediately`
    : seconds % 60 === 0
      ? plural(seconds / 60, { one: "after # minute", other: "after # minutes" })
      : plural(seconds, { one: "after # second", other: "after # seconds" });

/** The short sum of the header: "$412.80 of $500.00". */
export const headerWords = (b: Pick<Budget, "limit_nano" | "status">): string =>
  b.limit_nano === null ? usd(b.status.spent_nano) : t`${usd(b.status.spent_nano)} of ${usd(b.limit_nano)}`;

const HOUR = 3_600_000;

/** The cost by now: the last response plus its rate since then. */
export const costNow = (cost: number, rate: number, asked: number, now: number): number =>
  cost + (rate > 0 && asked > 0 ? Math.round((rate * Math.max(0, Math.min(now - asked, HOUR))) / HOUR) : 0);

/** Show the end of the budget in the workspace head from this long before it. */
export const ENDS_SOON = 12 * HOUR;
