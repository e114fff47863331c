import { usd } from "@/format/money";
import type { Billing, BillingPlan, Invoice } from "./api";

const plural = (n: number, one: string) => `${n.toLocaleString("en-US")} ${one}${n === 1 ? "" : "s"}`;

/** Describes what a plan allows, one line each, including what is unlimited. */
export function allows(p: BillingPlan): string[] {
  const out = [
    p.hours_month === null ? "Hours without a quota" : `${plural(p.hours_month, "hour")} a month for each member`,
    p.concurrent === null
      ? "Any number of sandboxes at once"
      : `${plural(p.concurrent, "sandbox").replace(/xs$/, "xes")} at once`,
  ];
  if (p.cpus !== null)
    out.push(`Up to ${plural(p.cpus, "CPU")}${p.memory_mb === null ? "" : `, ${memory(p.memory_mb)}`}`);
  if (p.members !== null) out.push(`Up to ${plural(p.members, "member")}`);
  if (p.metered_usage) out.push("Usage is billed on top");
  return out;
}

function memory(mb: number): string {
  return mb % 1024 === 0 ? `${mb / 1024} GiB` : `${mb} MiB`;
}

/** The price of a plan for a member: "No charge", "$20.00 per member per month". */
export function price(p: BillingPlan): string {
  return p.seat_month_nano === 0 ? "No charge" : `${usd(p.seat_month_nano)} per member per month`;
}

/** An amount in the smallest unit of a currency. */
export function amount(cents: number, currency: string): string {
  const code = currency.toUpperCase();
  try {
    const f = new Intl.NumberFormat("en-US", { style: "currency", currency: code });
    const digits = f.resolvedOptions().maximumFractionDigits ?? 2;
    return f.format(cents / 10 ** digits);
  } catch {
    return `${cents} ${code}`;
  }
}

/** A date, in words that do not depend on the hour. */
export function date(at: number): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "long" }).format(at);
}

/** Describes what a subscription's state means for the team; undefined if there is nothing to add to the plan. */
export function stands(b: Billing, now: number): string | undefined {
  if (b.past_due) return undefined;
  if (b.cancel_at !== null && b.cancel_at > now) return `It ends on ${date(b.cancel_at)}.`;
  switch (b.status) {
    case "trialing":
      return b.trial_ends_at === null ? "On trial." : `On trial until ${date(b.trial_ends_at)}.`;
    case "active":
      return b.period_end === null ? undefined : `The next payment is on ${date(b.period_end)}.`;
    case "paused":
      return "The trial ended without a payment method. Add one under Manage payment.";
    case "incomplete":
      return "The first payment is not complete. Complete it under Manage payment.";
    case "canceled":
      return "The subscription has ended.";
    case "incomplete_expired":
      return "The first payment was not made in time.";
    default:
      return undefined;
  }
}

/** The words of the banner while a payment is due; undefined when none is. */
export function owing(b: Billing): { title: string; text: string } | undefined {
  if (!b.past_due) return undefined;
  const cure = b.can_manage
    ? "Pay the invoice or change the payment method."
    : "Ask an owner or admin of the team to pay.";
  if (b.past_due.days_left > 0)
    return {
      title: "A payment failed",
      text: `The team keeps its plan for ${plural(b.past_due.days_left, "more day")}. ${cure}`,
    };
  return { title: "The team's payment is overdue", text: `The team no longer has its paid plan. ${cure}` };
}

const INVOICE: Record<string, string> = {
  draft: "being made",
  open: "to pay",
  paid: "paid",
  void: "void",
  uncollectible: "not paid",
};

export const invoiceState = (i: Invoice): string => INVOICE[i.status] ?? i.status;
