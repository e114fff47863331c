import { t } from "@lingui/core/macro";
import { locale } from "@/language/locale";

const NANO = 1e9;

const fixed = (digits: number) =>
  new Intl.NumberFormat(locale(), {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
const cents = fixed(2);
const fine = fixed(3);

/** Money in dollars: "$0.84", "under $0.01", "$1,204.00". */
export function usd(nano: number): string {
  if (nano > 0 && nano < 0.005 * NANO) return t`under ${cents.format(0.01)}`;
  return cents.format(nano / NANO);
}

/** A price for an hour, exact enough to compare sizes: "$0.11", "$0.083". */
export function hourly(nano: number): string {
  const dollars = nano / NANO;
  return dollars < 0.1 && Math.round(dollars * 1000) % 10 !== 0 ? fine.format(dollars) : cents.format(dollars);
}

/** A number of dollars that somebody typed, in nano-USD; undefined = it is none. */
export function nano(text: string): number | undefined {
  if (text.trim() === "") return 0;
  const dollars = Number(text.replace(",", "."));
  return Number.isFinite(dollars) && dollars >= 0 ? Math.round(dollars * NANO) : undefined;
}
