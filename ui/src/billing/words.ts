import { plural, t } from "@lingui/core/macro";
import { usd } from "@/format/money";
import { locale } from "@/language/locale";
import type { Billing, BillingPlan, Invoice } from "./api";

/** Describes what a plan allows, one line each, including what is unlimited. */
export function allows(p: BillingPlan): string[] {
  const out = [
    p.hours_month === null
      ? t`Hours without a quota`
      : t`${plural(p.hours_month, { one: "# hour", other: "# hours" })} a month for each member`,
    p.concurrent === null
      ? t`Any number of sandboxes at once`
      : t`${plural(p.concurrent, { one: "# sandbox", other: "# sandboxes" })} at once`,
  ];
  if (p.cpus !== null)
    out.push(
      t`Up to ${plural(p.cpus, { one: "# CPU", other: "# CPUs" })}${p.memory_mb === null ? "" : `, ${memory(p.memory_mb)}`}`,
    );
  if (p.members !== null) out.push(t`Up to ${plural(p.members, { one: "# member", other: "# members" })}`);
  if (p.metered_usage) out.push(t`Usage is billed on top`);
  return out;
}

function memory(mb: number): string {
  return mb % 1024 === 0 ? `${mb / 1024} GiB` : `${mb} MiB`;
}

/** The price of a plan for a member: "No charge", "$20.00 per member per month". */
export function price(p: BillingPlan): string {
  return p.seat_month_nano === 0 ? t`No charge` : t`${usd(p.seat_month_nano)} per member per month`;
}

/** An amount in the smallest unit of a currency. */
export function amount(cents: number, currency: string): string {
  const code = currency.toUpperCase();
  try {
    const f = new Intl.NumberFormat(locale(), { style: "currency", currency: code });
    const digits = f.resolvedOptions().maximumFractionDigits ?? 2;
    return f.format(cents / 10 ** digits);
  } catch {
    return `${cents} ${code}`;
  }
}

/** A date, in words that do not depend on the hour. */
export function date(at: number): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "long" }).format(at);
}

/** Describes what a subscription's state means for the team; undefined if there is nothing to add to the plan. */
export function stands(b: Billing, now: number): string | undefined {
  if (b.past_due) return undefined;
  if (b.cancel_at !== null && b.cancel_at > now) return t`It ends on ${date(b.cancel_at)}.`;
  switch (b.status) {
    case "trialing":
      return b.trial_ends_at === null ? t`On trial.` : t`On trial until ${date(b.trial_ends_at)}.`;
    case "active":
      return b.period_end === null ? undefined : t`The next payment is on ${date(b.period_end)}.`;
    case "paused":
      return t`The trial ended without a payment method. Add one under Manage payment.`;
    case "incomplete":
      return t`The first payment is not complete. Complete it under Manage payment.`;
    case "canceled":
      return t`The subscription has ended.`;
    case "incomplete_expired":
      return t`The first payment was not made in time.`;
    default:
      return undefined;
  }
}

/** The words of the banner while a payment is due; undefined when none is. */
export function owing(b: Billing): { title: string; text: string } | undefined {
  if (!b.past_due) return undefined;
  const cure = b.can_manage
    ? t`Pay the invoice or change the payment method.`
    : t`Ask an owner or admin of the team to pay.`;
  if (b.past_due.days_left > 0)
    return {
      title: t`A payment failed`,
      text: t`The team keeps its plan for ${plural(b.past_due.days_left, { one: "# more day", other: "# more days" })}. ${cure}`,
    };
  return { title: t`The team's payment is overdue`, text: t`The team no longer has its paid plan. ${cure}` };
}

const INVOICE: Record<string, string> = {
  draft: t`being made`,
  open: t`to pay`,
  paid: t`paid`,
  void: t`void`,
  uncollectible: t`not paid`,
};

export const invoiceState = (i: Invoice): string => INVOICE[i.status] ?? i.status;
