import { plural, t } from "@lingui/core/macro";
import { locale } from "@/language/locale";
import { tenths } from "./text";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, short: "now", "5 min", "3 h", "12 d", "4 mo", "2 y". Times in the future read as now. */
export function age(at: number, now: number): string {
  const ms = Math.max(0, now - at);
  if (ms < MINUTE) return t`now`;
  if (ms < HOUR) return t`${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return t`${Math.floor(ms / HOUR)} h`;
  if (ms < 45 * DAY) return t`${Math.floor(ms / DAY)} d`;
  if (ms < 365 * DAY) return t`${Math.floor(ms / (30 * DAY))} mo`;
  return t`${Math.floor(ms / (365 * DAY))} y`;
}

/** The same as part of a sentence: "just now", "5 min ago". */
export function ago(at: number, now: number): string {
  if (now - at < MINUTE) return t`just now`;
  const length = age(at, now);
  return t`${length} ago`;
}

/** A length of time: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min". */
export function duration(ms: number): string {
  if (ms < 0) return "0 s";
  if (ms < 50) return "<0.1 s";
  if (ms < 10_000) return `${tenths(ms / 1000)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / 1000)} s`;
  if (ms < HOUR) {
    const s = Math.floor((ms % MINUTE) / 1000);
    return s ? `${Math.floor(ms / MINUTE)} min ${s} s` : `${Math.floor(ms / MINUTE)} min`;
  }
  const min = Math.floor((ms % HOUR) / MINUTE);
  return min ? `${Math.floor(ms / HOUR)} h ${min} min` : `${Math.floor(ms / HOUR)} h`;
}

/** The exact moment, for tooltips. */
export function exact(at: number): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(at);
}

/** The time of day, or the date with it when it is another day. */
export function clock(at: number, now: number): string {
  const same = new Date(at).toDateString() === new Date(now).toDateString();
  return new Intl.DateTimeFormat(
    locale(),
    same ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" },
  ).format(at);
}

/** The day as a heading. */
export function day(at: number, now: number): string {
  const d = new Date(at).toDateString();
  if (d === new Date(now).toDateString()) return t`Today`;
  if (d === new Date(now - DAY).toDateString()) return t`Yesterday`;
  return new Intl.DateTimeFormat(locale(), { dateStyle: "full" }).format(at);
}

/** Minutes as people say them: "45 minutes", "8 hours", "2 days". */
export function minutes(n: number): string {
  if (n % 1440 === 0) return plural(n / 1440, { one: "# day", other: "# days" });
  if (n % 60 === 0) return plural(n / 60, { one: "# hour", other: "# hours" });
  return plural(n, { one: "# minute", other: "# minutes" });
}

/** How long until a moment: "in 40 s", "in 4 min", "in 2 h 5 min". */
export function until(at: number, now: number): string {
  const s = Math.max(0, Math.ceil((at - now) / 1000));
  if (s < 60) return t`in ${s} s`;
  const min = Math.round(s / 60);
  if (min < 60) return t`in ${min} min`;
  const rest = min % 60;
  return rest ? t`in ${Math.floor(min / 60)} h ${rest} min` : t`in ${Math.floor(min / 60)} h`;
}

/** How long ago, to the second while that matters: "just now", "3 s ago", "4 min ago". */
export function secondsAgo(at: number, now: number): string {
  const s = Math.max(0, Math.floor((now - at) / 1000));
  if (s < 1) return t`just now`;
  if (s < 60) return t`${s} s ago`;
  if (s < 3600) return t`${Math.floor(s / 60)} min ago`;
  const h = Math.floor(s / 3600);
  return h < 48 ? t`${h} h ago` : t`${Math.floor(h / 24)} d ago`;
}

/** What a limit of an agent's provider means for it, and until when it holds. */
export const limitText = (end: number | undefined, now: number): string =>
  end && end > now ? t`Limit reached until ${clock(end, now)}` : t`Limit reached`;
