/** What usage can be broken down by: what the address of a page may say. */
export const USAGE_GROUPS = ["day", "team", "user", "project", "workspace", "executor", "agent"] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

/** Whether a text names a month (UTC), "2026-11". */
export const isMonth = (s: unknown): s is string => typeof s === "string" && /^20\d\d-(0[1-9]|1[0-2])$/.test(s);

/** Whether a text names a day (UTC), "2026-11-05". */
export const isDay = (s: unknown): s is string =>
  typeof s === "string" && /^20\d\d-\d\d-\d\d$/.test(s) && !Number.isNaN(Date.parse(`${s}T00:00:00Z`));

/** What a page of usage shows; absent is this month, by day, in cents. */
export interface UsageSearch {
  month?: string;
  day?: string;
  by?: UsageGroup;
  exact?: true;
}

/** Reads what the address of a page of usage says. */
export const usageSearch = (s: Record<string, unknown>): UsageSearch => ({
  month: isMonth(s.month) ? s.month : undefined,
  day: isDay(s.day) ? s.day : undefined,
  by: USAGE_GROUPS.find((g) => g === s.by),
  exact: s.exact === true || s.exact === "1" || s.exact === 1 ? true : undefined,
});
