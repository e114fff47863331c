import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, data, type Schemas } from "@/api/client";
import { count } from "@/format/text";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { type Ask, useAction } from "@/kit/use-action";

type Overview = Schemas["InstanceBilling"];

const KEY = ["instance", "billing"] as const;

/** How payment goes: the ledger beside what the payment service counts, and what went wrong. For operators. */
export default function PaymentsSettings() {
  const list = useQuery({ queryKey: KEY, queryFn: () => data(api.GET("/instance/billing")), refetchInterval: 30_000 });
  if (list.isPending) return <Skeleton rows={8} label={tr`Loading the payment status`} />;
  if (!list.data)
    return (
      <Failure
        what={tr`The payment status could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  const o = list.data;
  if (!o.payments)
    return (
      <p className="max-w-prose text-fg2">
        <Trans>
          This server takes no payments. To bill teams through your own account at Stripe, set{" "}
          <code>billing.stripe.secretKey</code> in config.json, restart, and run <code>parawork billing setup</code>.
        </Trans>
      </p>
    );
  return (
    <div className="flex flex-col gap-7">
      <State o={o} />
      <Teams o={o} />
      <Discrepancies list={o.discrepancies} />
      <Reports list={o.reports.items} />
      <GivenUp o={o} />
    </div>
  );
}

/** What an operator asks of the payment service. */
function useRequest<V>(act: (v: V) => Promise<unknown>, done: string, failed: string, confirm?: (v: V) => Ask) {
  return useAction({ act, done, failed, confirm, refresh: [KEY] });
}

function Part({ id, title, about, children }: { id: string; title: string; about?: string; children: ReactNode }) {
  return (
    <section aria-labelledby={id} className="flex flex-col gap-2">
      <div>
        <h2 id={id} className="text-title font-semibold">
          {title}
        </h2>
        {about && <p className="text-fg2">{about}</p>}
      </div>
      {children}
    </section>
  );
}

function State({ o }: { o: Overview }) {
  const compare = useRequest<void>(
    () => data(api.POST("/instance/billing/reconcile")),
    tr`Usage compared`,
    tr`The usage could not be compared`,
  );
  const r = o.reports;
  const lines: [string, boolean, string][] = [
    [tr`Mode`, true, o.livemode ? tr`Live: real money` : tr`Test: no real money moves`],
    [tr`Set up`, o.set_up, o.set_up ? tr`Products, prices and portal` : tr`Run: parawork billing setup`],
    [
      tr`Webhooks`,
      o.webhooks.taken && o.webhooks.failed === 0,
      o.webhooks.taken
        ? tr`${o.webhooks.last_at ? tr`last one ${exact(o.webhooks.last_at)}` : tr`none received yet`}; ${count(o.webhooks.new)} to process, ${count(o.webhooks.failed)} given up`
        : tr`not taken: there is no signing secret. Run: parawork billing setup`,
    ],
    [tr`Outbox`, o.outbox.failed === 0, tr`${count(o.outbox.pending)} waiting, ${count(o.outbox.failed)} given up`],
    [
      tr`Usage`,
      r.failed + r.unknown === 0,
      tr`${plural(r.pending, { one: "# report", other: "# reports" })} waiting, ${count(r.sent)} sent, ${count(r.confirmed)} confirmed, ${count(r.failed)} failed, ${count(r.unknown)} unknown`,
    ],
    [
      tr`Usage compared`,
      o.discrepancies.length === 0,
      `${o.reconciled_at ? exact(o.reconciled_at) : tr`not yet`}; ${o.discrepancies.length ? plural(o.discrepancies.length, { one: "# hour differs", other: "# hours differ" }) : tr`nothing differs`}`,
    ],
  ];
  return (
    <Part id="payments-state" title={tr`State`}>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {lines.map(([name, good, words]) => (
          <li key={name} className="flex min-h-8 flex-wrap items-baseline gap-x-3 py-1">
            <Mark kind={good ? "merged" : "needs"} word={name} className="w-36" />
            <span className="min-w-0 flex-1 basis-60 text-fg2">{words}</span>
          </li>
        ))}
      </ul>
      <div>
        <Button busy={compare.busy} onClick={() => void compare.run()}>
          <Trans>Compare now</Trans>
        </Button>
      </div>
    </Part>
  );
}

/** A table that scrolls by itself where it is wider than the page. */
function Table({ label, head, children }: { label: string; head: readonly string[]; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and so it can be reached by keyboard
    <section className="overflow-x-auto" aria-label={label} tabIndex={0}>
      <table className="w-full min-w-max text-left">
        <caption className="sr-only">{label}</caption>
        <thead className="text-meta text-fg3">
          <tr>
            {head.map((h, i) => (
              <th key={h} scope="col" className={i > 1 ? "px-2 py-1 text-right font-normal" : "px-2 py-1 font-normal"}>
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-hairline border-y border-hairline">{children}</tbody>
      </table>
    </section>
  );
}

const METERS: Record<string, string> = { vcpu_seconds: "vCPU-seconds", mib_seconds: "MiB-seconds" };
const meter = (m: string) => METERS[m] ?? m;
const teamName = (t: Schemas["BilledTeam"]) => t.name ?? tr`A team that is gone`;
const figure = "px-2 py-1 text-right tabular-nums";

function Teams({ o }: { o: Overview }) {
  const sync = useRequest(
    (id: string) => data(api.POST("/instance/billing/teams/{id}/sync", { params: { path: { id } } })),
    tr`Read again`,
    tr`The payment service could not be reached`,
  );
  const lift = useRequest(
    (id: string) => data(api.DELETE("/instance/billing/teams/{id}/suspension", { params: { path: { id } } })),
    tr`Lifted`,
    tr`It was not lifted`,
  );
  return (
    <Part
      id="payments-teams"
      title={tr`Teams`}
      about={tr`Usage of the billing period: what the ledger has, what was reported of it, and what Stripe counts.`}
    >
      {o.teams.length === 0 && (
        <p className="text-fg3">
          <Trans>No team has paid yet.</Trans>
        </p>
      )}
      {o.teams.map((t) => (
        <div key={t.team.id} className="flex flex-col gap-1 border-t border-hairline pt-2">
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <h3 className="font-semibold">{teamName(t.team)}</h3>
            <span className="text-fg2">
              {t.plan}
              {`, ${t.status?.replaceAll("_", " ") ?? tr`no subscription`}`}
              {t.period_end !== null && tr`, until ${exact(t.period_end)}`}
            </span>
            {t.suspended_for && <Mark kind="failed" word={tr`Held back: ${t.suspended_for}`} />}
            <span className="ml-auto flex gap-2">
              {t.suspended_for && (
                <Button busy={lift.target === t.team.id} onClick={() => void lift.run(t.team.id)}>
                  <Trans>Lift</Trans>
                  <span className="sr-only">
                    {" "}
                    <Trans>what holds {teamName(t.team)} back</Trans>
                  </span>
                </Button>
              )}
              <Button busy={sync.target === t.team.id} onClick={() => void sync.run(t.team.id)}>
                <Trans>Read again</Trans>
                <span className="sr-only">
                  {" "}
                  <Trans>how {teamName(t.team)} stands</Trans>
                </span>
              </Button>
            </span>
          </div>
          {t.meters.length > 0 && (
            <Table
              label={tr`Usage of ${teamName(t.team)}`}
              head={[tr`Meter`, tr`Until`, tr`Ledger`, tr`Reported`, "Stripe", tr`Difference`]}
            >
              {t.meters.map((m) => (
                <tr key={m.meter}>
                  <th scope="row" className="px-2 py-1 font-normal">
                    {meter(m.meter)}
                  </th>
                  <td className="px-2 py-1">{exact(m.until)}</td>
                  <td className={figure}>{count(m.ledger)}</td>
                  <td className={figure}>{count(m.reported)}</td>
                  <td className={figure}>{m.theirs === null ? tr`not asked yet` : count(m.theirs)}</td>
                  <td className={figure}>{m.theirs === null ? "–" : count(m.theirs - m.reported)}</td>
                </tr>
              ))}
            </Table>
          )}
        </div>
      ))}
    </Part>
  );
}

function Discrepancies({ list }: { list: Overview["discrepancies"] }) {
  const accept = useRequest(
    (d: Schemas["Discrepancy"]) =>
      data(
        api.POST("/instance/billing/discrepancies/accept", {
          body: { team_id: d.team.id, meter: d.meter, hour: d.hour },
        }),
      ),
    tr`Ignored`,
    tr`The difference was not ignored`,
    (d) => ({
      title: tr`Ignore the difference in this hour?`,
      body: tr`Stripe bills ${count(d.theirs)} ${meter(d.meter)} and the ledger has ${count(d.ours)}.`,
      action: tr`Ignore`,
    }),
  );
  if (list.length === 0) return null;
  return (
    <Part
      id="payments-differ"
      title={tr`Hours that differ`}
      about={tr`Reports that cannot be counted twice are resent automatically. For the rest, send a report again below, or ignore the difference.`}
    >
      <Table label={tr`Hours that differ`} head={[tr`Team`, tr`Hour`, tr`Ledger`, "Stripe", ""]}>
        {list.map((d) => (
          <tr key={`${d.team.id} ${d.meter} ${d.hour}`}>
            <th scope="row" className="px-2 py-1 font-normal">
              {teamName(d.team)}, {meter(d.meter)}
            </th>
            <td className="px-2 py-1">{exact(d.hour)}</td>
            <td className={figure}>{count(d.ours)}</td>
            <td className={figure}>{count(d.theirs)}</td>
            <td className={figure}>
              <Button onClick={() => void accept.run(d)}>
                <Trans>Ignore</Trans>
              </Button>
            </td>
          </tr>
        ))}
      </Table>
    </Part>
  );
}

function Reports({ list }: { list: Overview["reports"]["items"] }) {
  const retry = useRequest(
    (identifier: string) =>
      data(api.POST("/instance/billing/reports/{identifier}/retry", { params: { path: { identifier } } })),
    tr`It is sent again`,
    tr`It was not sent again`,
  );
  if (list.length === 0) return null;
  return (
    <Part id="payments-reports" title={tr`Undelivered usage`}>
      <Table label={tr`Undelivered usage`} head={[tr`Team`, tr`Hour`, tr`Seconds`, tr`Why`, ""]}>
        {list.map((r) => (
          <tr key={r.identifier}>
            <th scope="row" className="px-2 py-1 font-normal">
              {teamName(r.team)}, {meter(r.meter)}
            </th>
            <td className="px-2 py-1">{exact(r.hour)}</td>
            <td className={figure}>{count(r.quantity)}</td>
            <td className="px-2 py-1 text-right">{r.reason ?? tr`Delivery unknown`}</td>
            <td className={figure}>
              <Button busy={retry.target === r.identifier} onClick={() => void retry.run(r.identifier)}>
                <Trans>Send again</Trans>
              </Button>
            </td>
          </tr>
        ))}
      </Table>
    </Part>
  );
}

function GivenUp({ o }: { o: Overview }) {
  const event = useRequest(
    (id: string) => data(api.POST("/instance/billing/events/{id}/retry", { params: { path: { id } } })),
    tr`It is tried again`,
    tr`It was not tried again`,
  );
  const out = useRequest(
    (id: string) => data(api.POST("/instance/billing/outbox/{id}/retry", { params: { path: { id } } })),
    tr`It is sent again`,
    tr`It was not sent again`,
  );
  if (o.events.length + o.outbox.items.length === 0) return null;
  return (
    <Part id="payments-given-up" title={tr`Given up`}>
      <Table label={tr`What was given up`} head={[tr`What`, tr`When`, tr`Why`, ""]}>
        {o.events.map((e) => (
          <tr key={e.id}>
            <th scope="row" className="px-2 py-1 font-normal">
              <Trans>Event {e.type}</Trans>
            </th>
            <td className="px-2 py-1">{exact(e.received_at)}</td>
            <td className="px-2 py-1 text-right">{e.reason}</td>
            <td className={figure}>
              <Button busy={event.target === e.id} onClick={() => void event.run(e.id)}>
                <Trans>Try again</Trans>
              </Button>
            </td>
          </tr>
        ))}
        {o.outbox.items.map((r) => (
          <tr key={r.id}>
            <th scope="row" className="px-2 py-1 font-normal">
              <Trans>
                {r.kind === "seats" ? tr`Seats` : tr`Customer`} of {teamName(r.team)}
              </Trans>
            </th>
            <td className="px-2 py-1">{exact(r.created_at)}</td>
            <td className="px-2 py-1 text-right">{r.reason}</td>
            <td className={figure}>
              <Button busy={out.target === r.id} onClick={() => void out.run(r.id)}>
                <Trans>Send again</Trans>
              </Button>
            </td>
          </tr>
        ))}
      </Table>
    </Part>
  );
}
