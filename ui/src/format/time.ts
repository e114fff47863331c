const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, short: "now", "5 min", "3 h", "12 d", "4 mo", "2 y". Times in the future read as now. */
export function age(at: number, now: number): string {
  const ms = Math.max(0, now - at);
  if (ms < MINUTE) return "now";
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  if (ms < 45 * DAY) return `${Math.floor(ms / DAY)} d`;
  if (ms < 365 * DAY) return `${Math.floor(ms / (30 * DAY))} mo`;
  return `${Math.floor(ms / (365 * DAY))} y`;
}

/** The same as part of a sentence: "just now", "5 min ago". */
export function ago(at: number, now: number): string {
  const text = age(at, now);
  return text === "now" ? "just now" : `${text} ago`;
}

/** A length of time: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min". */
export function duration(ms: number): string {
  if (ms < 0) return "0 s";
  if (ms < 50) return "<0.1 s";
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
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
  return new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }).format(at);
}

/** The time of day, or the date with it when it is another day. */
export function clock(at: number, now: number): string {
  const same = new Date(at).toDateString() === new Date(now).toDateString();
  return new Intl.DateTimeFormat(
    undefined,
    same ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" },
  ).format(at);
}

/** The day as a heading. */
export function day(at: number, now: number): string {
  const d = new Date(at).toDateString();
  if (d === new Date(now).toDateString()) return "Today";
  if (d === new Date(now - DAY).toDateString()) return "Yesterday";
  return new Intl.DateTimeFormat(undefined, { dateStyle: "full" }).format(at);
}
