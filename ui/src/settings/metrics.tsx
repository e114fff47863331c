import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { usd } from "@/format/money";
import { count, sentence } from "@/format/text";
import { exact } from "@/format/time";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import {
  budgetSaid,
  type InstanceMetrics,
  metricsQuery,
  percent,
  type Target,
  targetValue,
  took,
} from "./server-metrics";

/** How the server's places do: targets, what was made and reused, what it costs. For operators. */
export default function MetricsSettings() {
  const metrics = useQuery(metricsQuery());
  if (metrics.isPending) return <Skeleton rows={8} label={tr`Counting`} />;
  if (metrics.isError && !metrics.data)
    return (
      <Failure what={tr`The figures could not be loaded.`} error={metrics.error} retry={() => void metrics.refetch()} />
    );
  const m = metrics.data;
  return (
    <div className="flex flex-col gap-7">
      <Targets list={m.targets} />
      <Budget metrics={m} />
      <Places list={m.places} since={m.since} />
      <Purposes list={m.purposes} total={m.total} />
      <Costs
        id="cost-workspaces"
        title={tr`Cost by workspace`}
        rows={m.workspaces.map((w) => ({
          id: w.workspace_id,
          name: `${w.key} ${w.name}`.trim() || tr`A deleted workspace`,
          more: w.team,
          nano: w.cost_nano,
        }))}
      />
      {m.teams.length > 1 && (
        <Costs
          id="cost-teams"
          title={tr`Cost by team`}
          rows={m.teams.map((t) => ({
            id: t.team_id,
            name: t.name || tr`A deleted team`,
            more: "",
            nano: t.cost_nano,
          }))}
        />
      )}
      <Costs
        id="cost-users"
        title={tr`Cost by user`}
        rows={m.users.map((u) => ({
          id: u.user_id,
          name: u.name || (u.user_id ? tr`A deleted user` : tr`The server itself`),
          more: "",
          nano: u.cost_nano,
        }))}
      />
    </div>
  );
}

function Part({ id, title, about, children }: { id: string; title: string; about?: string; children: ReactNode }) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id} className="text-title font-semibold">
        {title}
      </h2>
      {about && <p className="text-fg2">{about}</p>}
      <div className="mt-2">{children}</div>
    </section>
  );
}

function Targets({ list }: { list: Target[] }) {
  return (
    <Part id="targets" title={tr`Targets`} about={tr`For the place with the worst result.`}>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {list.map((t) => (
          <li key={t.name} className="flex min-h-8 flex-wrap items-baseline gap-x-3 py-1">
            {t.met === null ? (
              <Mark kind="idle" word={tr`Not measured yet`} className="w-36" />
            ) : (
              <Mark kind={t.met ? "merged" : "needs"} word={t.met ? tr`Met` : tr`Not met`} className="w-36" />
            )}
            <span className="w-16 text-right font-medium tabular-nums max-sm:w-auto">{targetValue(t)}</span>
            <span className="min-w-0 flex-1 basis-60 text-fg2">{sentence(t.description)}</span>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Bar({ part, mark, className }: { part: number; mark: "done" | "needs" | "failed"; className?: string }) {
  const color = { done: "bg-running", needs: "bg-needs", failed: "bg-failed" }[mark];
  return (
    <span aria-hidden className={cx("block h-1.5 overflow-hidden rounded-full bg-bg3", className)}>
      <span
        className={cx("block h-full rounded-full", color)}
        style={{ width: `${Math.min(100, Math.max(part > 0 ? 1 : 0, part * 100))}%` }}
      />
    </span>
  );
}

function Budget({ metrics: m }: { metrics: InstanceMetrics }) {
  const b = budgetSaid(m.budget);
  return (
    <Part id="budget" title={tr`Budget`}>
      <p className="tabular-nums">
        {b.mark !== "done" && (
          <Mark kind={b.mark} word={b.mark === "failed" ? tr`Spent` : tr`Nearly spent`} className="mr-2" />
        )}
        {b.words}
      </p>
      {(m.budget.limit_nano ?? 0) > 0 && <Bar part={b.part} mark={b.mark} className="mt-1.5 max-w-md" />}
      {m.pool.enabled ? (
        <p className="mt-2 text-fg2 tabular-nums">
          <Trans>
            Pool: {count(m.pool.ready)} ready, {count(m.pool.making)} being created, {count(m.pool.taken)} in use; taken{" "}
            {plural(m.pool.hits, { one: "# time", other: "# times" })}, none was ready{" "}
            {plural(m.pool.misses, { one: "# time", other: "# times" })}; {usd(m.pool.cost_nano_month)} this month.
          </Trans>
        </p>
      ) : (
        <p className="mt-2 text-fg3">
          <Trans>The pool is empty.</Trans>
        </p>
      )}
    </Part>
  );
}

const COLUMNS: readonly { title: string; cell: (p: InstanceMetrics["places"][number]) => string }[] = [
  { title: tr`Workspaces`, cell: (p) => `${count(p.workspaces)} (${percent(p.share)})` },
  { title: tr`Active`, cell: (p) => count(p.active) },
  { title: tr`Idle`, cell: (p) => percent(p.idle_share) },
  { title: tr`Created`, cell: (p) => count(p.created) },
  { title: tr`Failed to create`, cell: (p) => count(p.failed) },
  { title: tr`Success`, cell: (p) => percent(p.success) },
  { title: tr`Start, median`, cell: (p) => took(p.create_p50_ms) },
  { title: tr`Start, p95`, cell: (p) => took(p.create_p95_ms) },
  { title: tr`Sync, p95`, cell: (p) => took(p.sync_lag_p95_ms) },
  { title: tr`Reused`, cell: (p) => count(p.reused) },
  { title: tr`Cleaned up`, cell: (p) => count(p.cleaned) },
  { title: tr`Failed checks`, cell: (p) => count(p.health_failures) },
  { title: tr`Fallbacks`, cell: (p) => count(p.fallbacks) },
  { title: tr`Cost this month`, cell: (p) => usd(p.cost_nano_month) },
];

function Places({ list, since }: { list: InstanceMetrics["places"]; since: number }) {
  if (list.length === 0) return null;
  return (
    <Part id="by-place" title={tr`By place`} about={tr`Counted since ${exact(since)}. Costs are this month's.`}>
      {/* A place is a column: there are few of them, and a phone shows one or two beside the names. */}
      <div
        className="overflow-x-auto"
        role="region"
        aria-labelledby="by-place"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
      >
        <table className="text-left">
          <thead>
            <tr>
              <th scope="col" className="py-1 pr-6">
                <span className="sr-only">
                  <Trans>Figure</Trans>
                </span>
              </th>
              {list.map((p) => (
                <th key={p.executor} scope="col" className="py-1 pr-6 text-right font-medium whitespace-nowrap">
                  {p.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {COLUMNS.map((c) => (
              <tr key={c.title} className="border-t border-hairline">
                <th scope="row" className="py-1 pr-6 font-normal whitespace-nowrap text-fg2">
                  {c.title}
                </th>
                {list.map((p) => (
                  <td key={p.executor} className="py-1 pr-6 text-right whitespace-nowrap">
                    {c.cell(p)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Part>
  );
}

const COUNTS = [
  { title: tr`Active`, key: "active" },
  { title: tr`Created`, key: "created" },
  { title: tr`Failed to create`, key: "failed" },
  { title: tr`Reused`, key: "reused" },
  { title: tr`Cleaned up`, key: "cleaned" },
  { title: tr`Failed checks`, key: "health_failures" },
] as const;

function Purposes({ list, total }: { list: InstanceMetrics["purposes"]; total: InstanceMetrics["total"] }) {
  if (list.length === 0) return null;
  return (
    <Part id="by-purpose" title={tr`By purpose`}>
      <div
        className="overflow-x-auto"
        role="region"
        aria-labelledby="by-purpose"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
      >
        <table className="text-right">
          <thead>
            <tr>
              <th scope="col" className="py-1 pr-6 text-left font-medium">
                <Trans>Purpose</Trans>
              </th>
              {COUNTS.map((c) => (
                <th key={c.key} scope="col" className="py-1 pr-6 font-medium whitespace-nowrap">
                  {c.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {[...list, { ...total, purpose: "total" }].map((row) => (
              <tr key={row.purpose} className="border-t border-hairline">
                <th scope="row" className="capitalize py-1 pr-6 text-left font-normal text-fg2">
                  {row.purpose}
                </th>
                {COUNTS.map((c) => (
                  <td key={c.key} className="py-1 pr-6 tabular-nums">
                    {count(row[c.key])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Part>
  );
}

const MOST = 20;

/** Costs with their share as a bar: the chart and its table are one. */
function Costs({
  id,
  title,
  rows,
}: {
  id: string;
  title: string;
  rows: { id: string; name: string; more: string; nano: number }[];
}) {
  const sorted = [...rows].sort((a, b) => b.nano - a.nano);
  const most = sorted[0]?.nano ?? 0;
  return (
    <Part id={id} title={title}>
      {most === 0 ? (
        <p className="text-fg3">
          <Trans>No costs yet.</Trans>
        </p>
      ) : (
        <>
          <table className="w-full max-w-2xl text-left">
            <thead className="sr-only">
              <tr>
                <th scope="col">
                  <Trans>Name</Trans>
                </th>
                <th scope="col">
                  <Trans>Share</Trans>
                </th>
                <th scope="col">
                  <Trans>Cost</Trans>
                </th>
              </tr>
            </thead>
            <tbody>
              {sorted.slice(0, MOST).map((r) => (
                <tr key={r.id} className="border-t border-hairline">
                  <th scope="row" className="max-w-60 py-1 pr-4 font-normal break-words">
                    {r.name}
                    {r.more && <span className="ml-2 text-meta text-fg3">{r.more}</span>}
                  </th>
                  <td className="w-1/3 py-1 pr-4">
                    <Bar part={r.nano / most} mark="done" />
                  </td>
                  <td className="py-1 text-right whitespace-nowrap">{usd(r.nano)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {sorted.length > MOST && (
            <p className="mt-1 text-meta text-fg3">
              <Trans>
                The {count(MOST)} largest of {count(sorted.length)}.
              </Trans>
            </p>
          )}
        </>
      )}
    </Part>
  );
}
