import { plural, t } from "@lingui/core/macro";
import { usd } from "@/format/money";
import { dayLong, dayShort, daySpan, exactUsd, hourShort } from "./amounts";
import type { Span, Usage, UsageFigures, UsageGroup, UsageItem } from "./api";
import type { Bar } from "./chart";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** What usage is broken down by; teams only of the whole server. */
export const GROUPS: readonly { value: UsageGroup; name: string; column: string }[] = [
  { value: "day", name: t`Day`, column: t`Day` },
  { value: "team", name: t`Team`, column: t`Team` },
  { value: "user", name: t`Person`, column: t`Person` },
  { value: "project", name: t`Project`, column: t`Project` },
  { value: "workspace", name: t`Workspace`, column: t`Workspace` },
  { value: "executor", name: t`Place`, column: t`Place` },
  { value: "agent", name: t`Agent`, column: t`Agent` },
];

export const columnOf = (group: UsageGroup): string =>
  group === "hour" ? t`Hour` : (GROUPS.find((g) => g.value === group)?.column ?? "");

/** The moment an item of days or hours begins. Their keys are ms. */
export const beginOf = (item: Pick<UsageItem, "key">): number => Number(item.key);

/** What both sandboxes and models cost. */
export const whole = (f: UsageFigures): number => f.cost_nano + f.tokens_cost_nano;

/** The bars of a period: one for each day or hour, including those without usage, none in the future. */
export function bars(items: readonly UsageItem[], span: Span, group: "day" | "hour", now: number): Bar[] {
  const step = group === "day" ? DAY : HOUR;
  const known = new Map(items.map((i) => [beginOf(i), i]));
  const list: Bar[] = [];
  for (let at = span.from; at < Math.min(span.to, now + 1); at += step) {
    const item = known.get(at);
    list.push({
      key: String(at),
      short: group === "day" ? dayShort(at) : hourShort(at),
      long: group === "day" ? dayLong(at) : `${dayShort(at)}, ${hourShort(at)} UTC`,
      values: [item?.cost_nano ?? 0, item?.tokens_cost_nano ?? 0],
      open: at + step > now,
    });
  }
  return list;
}

/** What a row is called. */
export function nameOf(item: UsageItem, group: UsageGroup): string {
  if (group === "day") return dayShort(beginOf(item));
  if (group === "hour") return hourShort(beginOf(item));
  if (item.key === "private") return t`Others' private workspaces`;
  if (item.name) return item.name;
  const gone: Partial<Record<UsageGroup, string>> = {
    user: item.key ? t`A deleted user` : t`The server itself`,
    project: item.key ? t`A deleted project` : t`No project`,
    workspace: item.key ? t`A deleted workspace` : t`No workspace`,
    team: item.key ? t`A deleted team` : t`The server itself`,
    agent: t`No session`,
  };
  return gone[group] ?? item.key;
}

/** The basis of the forecast. */
export function basisWords(f: Pick<Usage["forecast"], "basis" | "days">): string {
  switch (f.basis) {
    case "last_7_days":
      return t`at the rate of the last seven days`;
    case "since_first":
      return plural(f.days, { one: "at the rate of the last day", other: "at the rate of the last # days" });
    case "today":
      return t`at today's rate`;
    case "nothing_used":
      return t`no usage yet`;
  }
}

/** What models cost: unknown stays unknown. */
export function modelWords(f: Pick<UsageFigures, "tokens_cost_nano" | "tokens_unknown">, money = usd): string {
  if (f.tokens_unknown === 0) return money(f.tokens_cost_nano);
  return f.tokens_cost_nano === 0 ? t`unknown` : t`${money(f.tokens_cost_nano)} + unknown`;
}

export const moneyOf = (exact: boolean): ((nano: number) => string) => (exact ? exactUsd : usd);

/** The bounds of the displayed period. */
export function spanOf(month: Span, day: string | undefined): Span {
  return day ? daySpan(day) : month;
}

export type SortBy = "name" | "run_ms" | "cost_nano" | "tokens" | "tokens_cost_nano" | "whole";

/** Rows in an order; time runs forward, everything else has the most first. */
export function sorted(items: readonly UsageItem[], group: UsageGroup, by: SortBy | undefined): UsageItem[] {
  const time = group === "day" || group === "hour";
  const list = [...items];
  if (!by || (by === "name" && time)) {
    return time
      ? list.sort((a, b) => beginOf(a) - beginOf(b))
      : list.sort((a, b) => whole(b) - whole(a) || b.run_ms - a.run_ms);
  }
  if (by === "name") return list.sort((a, b) => nameOf(a, group).localeCompare(nameOf(b, group)));
  const value = (i: UsageItem) =>
    by === "whole" ? whole(i) : by === "tokens" ? i.input_tokens + i.output_tokens : i[by];
  return list.sort((a, b) => value(b) - value(a));
}
