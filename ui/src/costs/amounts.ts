import { i18n } from "@/language/i18n";
import { locale } from "@/language/locale";

// Amounts of money are whole nano-USD, times ms UTC, months calendar months (UTC).
const NANO = 1_000_000_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const grouped = new Intl.NumberFormat(locale());
const decimal = new Intl.NumberFormat(locale(), { maximumFractionDigits: 1 });

const toTheNano = (least: number) =>
  new Intl.NumberFormat(locale(), {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: least,
    maximumFractionDigits: 9,
  });
const withCents = toTheNano(2);
const shortest = toTheNano(0);

/** Dollars to the nano-dollar: "$0.842913123", "$12.50"; with `short` no digit more than they have: "$5". */
export function exactUsd(nano: number, short = false): string {
  const abs = Math.abs(nano);
  // As text, which is not rounded as a number would be.
  const text = `${Math.trunc(abs / NANO)}.${String(abs % NANO).padStart(9, "0")}` as `${number}`;
  return `${nano < 0 ? "−" : ""}${(short ? shortest : withCents).format(text)}`;
}

/** Dollars as a field shows them: "500", "12.5", "0.000014". */
export function usdField(nano: number | null): string {
  if (nano === null) return "";
  const rest = String(nano % NANO)
    .padStart(9, "0")
    .replace(/0+$/, "");
  return `${Math.trunc(nano / NANO)}${rest && `.${rest}`}`;
}

/** What was typed as dollars; null for an empty field, undefined for what is no amount. */
export function readUsd(text: string): number | null | undefined {
  const t = text.trim().replace(/^\$/, "").replaceAll(",", "").trim();
  if (t === "") return null;
  const found = /^(\d*)(?:\.(\d{0,9}))?$/.exec(t);
  if (!found || t === ".") return undefined;
  const nano = Number(found[1] || 0) * NANO + Number((found[2] ?? "").padEnd(9, "0"));
  return Number.isSafeInteger(nano) ? nano : undefined;
}

/** How long sandboxes ran, for a sum: "1,204 h", "3.4 h", "12 min", "42 s". */
export function spell(ms: number): string {
  if (ms < MINUTE) return ms > 0 && ms < 1000 ? "under 1 s" : `${Math.floor(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  const hours = ms / HOUR;
  return `${hours < 100 ? decimal.format(Math.floor(hours * 10) / 10) : grouped.format(Math.floor(hours))} h`;
}

/** To the second, for tables: "12:05:09". */
export function clockSpell(ms: number): string {
  const s = Math.floor(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${grouped.format(Math.floor(s / 3600))}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** A count of tokens in few letters: "812", "34.1 k", "1.2 M". */
export function tokenCount(n: number): string {
  if (n < 1000) return String(n);
  const [by, unit] = n < 999_950 ? [1e3, "k"] : n < 999_950_000 ? [1e6, "M"] : [1e9, "G"];
  return `${decimal.format(n / by)} ${unit}`;
}

/** The month of a moment: "2026-11". */
export const monthOf = (at: number): string => new Date(at).toISOString().slice(0, 7);

/** The first moment of a month and of the one after it. */
export function monthSpan(month: string): { from: number; to: number } {
  const [year, m] = month.split("-").map(Number) as [number, number];
  return { from: Date.UTC(year, m - 1, 1), to: Date.UTC(year, m, 1) };
}

export const daySpan = (day: string): { from: number; to: number } => {
  const from = Date.parse(`${day}T00:00:00Z`);
  return { from, to: from + 24 * HOUR };
};

/** The month `by` months later. */
export const monthAfter = (month: string, by: number): string => {
  const [year, m] = month.split("-").map(Number) as [number, number];
  return monthOf(Date.UTC(year, m - 1 + by, 1));
};

const utc = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat(i18n.locale === "en" ? "en-GB" : locale(), { timeZone: "UTC", ...options });
  return (at: number): string => format.format(at);
};

/** "November 2026" */
export const monthName = (month: string): string => utc({ month: "long", year: "numeric" })(monthSpan(month).from);
/** "5 Nov" */
export const dayShort = utc({ day: "numeric", month: "short" });
/** "Thursday 5 November 2026" */
export const dayLong = utc({ weekday: "long", day: "numeric", month: "long", year: "numeric" });
/** "14:00" */
export const hourShort = utc({ hour: "2-digit", minute: "2-digit" });
/** "5 Nov 2026, 14:00 UTC" */
export const momentUtc = (at: number): string =>
  `${utc({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" })(at)} UTC`;
