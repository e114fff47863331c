import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import {
  type Billing,
  type BillingPlan,
  beginCheckout,
  billingKey,
  billingQuery,
  type Invoice,
  openPortal,
  syncBilling,
} from "@/billing/api";
import { allows, amount, date, invoiceState, owing, price, stands } from "@/billing/words";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";

const route = getRouteApi("/$team/settings/{-$section}");

/** The team's plan, and how it is paid. */
export default function BillingSettings() {
  const team = useTeam();
  const back = useWayBack();
  const list = useQuery(billingQuery(team.slug));
  if (list.isPending) return <Skeleton rows={5} label={t`Loading the team's plan`} />;
  if (!list.data)
    return <Failure what={t`The plan could not be loaded.`} error={list.error} retry={() => void list.refetch()} />;
  const b = list.data;
  return (
    <div className="flex flex-col gap-8">
      {back}
      <Present b={b} />
      {b.payments && b.can_manage && !b.given && <Offers b={b} />}
      {b.invoices.length > 0 && <Invoices invoices={b.invoices} />}
    </div>
  );
}

/** Shows the result to somebody who returns from the payment service: the page asks at once instead of waiting for a webhook. */
function useWayBack() {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const { paid, canceled, managed } = route.useSearch();
  const [said, setSaid] = useState("");
  const asked = useRef(false);
  const sync = useMutation({
    mutationFn: (checkout: string) => syncBilling(team.slug, checkout || undefined),
    onSuccess: (b, checkout) => {
      client.setQueryData(billingKey(team.slug), b);
      const has = b.subscribed_plan_id !== null && b.plan.id === b.subscribed_plan_id;
      if (!checkout) setSaid(t`Up to date with the payment service.`);
      else
        setSaid(
          has
            ? t`Thank you. The team has the plan ${b.plan.name}.`
            : t`The payment is not complete yet. You get the plan once it is.`,
        );
    },
  });
  useEffect(() => {
    if (asked.current || !(paid || canceled || managed)) return;
    asked.current = true;
    if (canceled) setSaid(t`Nothing was paid.`);
    else if (team.can("quotas.manage")) sync.mutate(paid ?? "");
    // The address is as it was: a reload says nothing anew.
    void navigate({
      to: "/$team/settings/{-$section}",
      params: { team: team.slug, section: "billing" },
      search: {},
      replace: true,
    });
  }, [paid, canceled, managed, team, navigate, sync]);
  return (
    <>
      <p role="status" className={said || sync.isPending ? "panel px-3 py-2" : "sr-only"}>
        {sync.isPending ? t`Checking with the payment service…` : said}
      </p>
      <FormError error={sync.error} />
    </>
  );
}

function Present({ b }: { b: Billing }) {
  const now = useNow(60_000);
  const due = owing(b);
  const state = stands(b, now);
  return (
    <section aria-labelledby="plan" className="flex flex-col gap-3">
      <div>
        <h2 id="plan" className="text-title font-semibold">
          {b.plan.name}
        </h2>
        <p className="text-fg2">
          {price(b.plan)}
          {b.given && t` · chosen by an operator of this server`}
          {state && ` · ${state}`}
        </p>
      </div>
      {due && (
        <p role="alert" className="rounded-md border border-failed px-3 py-2">
          <strong className="font-semibold">{due.title}.</strong> {due.text}
        </p>
      )}
      {b.suspended_for && (
        <p role="alert" className="rounded-md border border-failed px-3 py-2">
          <Trans>
            <strong className="font-semibold">No new paid sandboxes can start.</strong>{" "}
            {b.suspended_for === "fraud"
              ? t`A payment was reported as fraudulent.`
              : t`A payment is disputed with the bank.`}{" "}
            Ask an operator of this server.
          </Trans>
        </p>
      )}
      <Allowed plan={b.plan} />
      <p className="text-fg2">
        {b.seats.used} {b.seats.used === 1 ? t`member` : t`members`}
        {b.seats.paid !== null && t`, ${b.seats.paid} paid. Seats follow the number of members.`}
      </p>
      {!b.payments && (
        <p className="text-fg3">
          <Trans>This server takes no payments: its operators choose the plans.</Trans>
        </p>
      )}
      {b.payments && b.status !== null && b.can_manage && <Portal />}
      {b.test_mode && (
        <p className="text-fg3">
          <Trans>Test mode: no real money moves.</Trans>
        </p>
      )}
    </section>
  );
}

function Allowed({ plan }: { plan: BillingPlan }) {
  return (
    <ul className="list-inside list-disc text-fg2">
      {allows(plan).map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

/** Leaves for a page of the payment service. Until this page is gone, nothing can be pressed again. */
const leave = (way: { url: string }) => new Promise<never>(() => location.assign(way.url));

function Portal() {
  const team = useTeam();
  const open = useAction({ act: () => openPortal(team.slug), done: leave });
  return (
    <div className="flex flex-col items-start gap-2">
      <Button busy={open.busy && t`Opening`} onClick={() => void open.run()}>
        <Trans>Manage payment</Trans>
      </Button>
      <FormError error={open.error} />
    </div>
  );
}

function Offers({ b }: { b: Billing }) {
  const others = b.plans.filter((p) => p.seat_month_nano > 0 && p.id !== b.plan.id);
  // Who pays changes the plan there, with what is paid already counted in.
  const pays = b.status !== null && b.status !== "canceled" && b.status !== "incomplete_expired";
  if (others.length === 0 || pays) return null;
  return (
    <section aria-labelledby="offers" className="flex flex-col gap-3">
      <h2 id="offers" className="text-title font-semibold">
        <Trans>Choose a plan</Trans>
      </h2>
      <ul className="flex flex-col gap-3">
        {others.map((p) => (
          <Offer key={p.id} plan={p} members={b.seats.used} trial={b.status === null} />
        ))}
      </ul>
    </section>
  );
}

function Offer({ plan, members, trial }: { plan: BillingPlan; members: number; trial: boolean }) {
  const team = useTeam();
  const least = Math.max(members, 1);
  return (
    <li className="panel p-3">
      <h3 className="font-semibold">{plan.name}</h3>
      <p className="text-fg2">
        {price(plan)}
        {trial && plan.trial_days > 0 && t`, the first ${plan.trial_days} days free`}
      </p>
      {plan.description && <p className="text-fg2">{plan.description}</p>}
      <Allowed plan={plan} />
      <SettingsForm<{ seats: number | null }, { url: string }>
        inline
        className="mt-3 gap-2"
        create
        loaded={{ seats: null }}
        fields={[
          {
            name: "seats",
            label: t`Seats`,
            type: "text",
            codec: { format: (n) => String(n ?? ""), parse: wholeOrNone, message: t`At least ${least}` },
            input: { inputMode: "numeric" },
            placeholder: String(least),
            hint: t`Empty: ${least}, as many as members`,
            check: (n) => (n !== null && n < least ? t`At least ${least}` : undefined),
            className: "w-56",
          },
        ]}
        save={(_, { seats }) =>
          beginCheckout(team.slug, plan.id, seats === null || seats === least ? undefined : seats)
        }
        onSaved={leave}
        button={t`Choose ${plan.name}`}
        busy={t`Opening`}
      />
    </li>
  );
}

function Invoices({ invoices }: { invoices: Invoice[] }) {
  return (
    <section aria-labelledby="invoices" className="flex flex-col gap-2">
      <h2 id="invoices" className="text-title font-semibold">
        <Trans>Invoices</Trans>
      </h2>
      <div className="overflow-x-auto">
        <table className="w-full text-left">
          <thead>
            <tr className="border-b border-hairline text-fg3">
              <th scope="col" className="py-1.5 pr-3 font-normal">
                <Trans>Date</Trans>
              </th>
              <th scope="col" className="py-1.5 pr-3 font-normal">
                <Trans>Number</Trans>
              </th>
              <th scope="col" className="py-1.5 pr-3 text-right font-normal">
                <Trans>Amount</Trans>
              </th>
              <th scope="col" className="py-1.5 font-normal">
                <Trans>State</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {invoices.map((i) => (
              <tr key={i.id} className="border-b border-hairline">
                <td className="py-1.5 pr-3 whitespace-nowrap">{date(i.created_at)}</td>
                <td className="py-1.5 pr-3 whitespace-nowrap">
                  {i.url ? (
                    <a href={i.url} target="_blank" rel="noopener noreferrer" className="text-accent underline">
                      {i.number ?? t`Invoice`}
                    </a>
                  ) : (
                    (i.number ?? "")
                  )}
                </td>
                <td className="py-1.5 pr-3 text-right whitespace-nowrap tabular-nums">
                  {amount(i.total_cents, i.currency)}
                </td>
                <td className="py-1.5 whitespace-nowrap">
                  {invoiceState(i)}
                  {i.status === "open" && i.due_cents > 0 && t`, ${amount(i.due_cents, i.currency)} due`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A whole number; null for an empty field, undefined for what is none. */
function wholeOrNone(text: string): number | null | undefined {
  if (text.trim() === "") return null;
  return /^\s*\d{1,9}\s*$/.test(text) ? Number(text) : undefined;
}
