import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { errorWords, type GatewayLine, type GatewayReport, gatewayQuery, isFailure, limitsQuery } from "@/costs/models";
import { count, visible } from "@/format/text";
import { exact } from "@/format/time";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { ModelPrices } from "./model-prices";
import { ModelRules } from "./model-rules";
import { took } from "./server-metrics";

/** How agents reach their models: what passed, how long it took, what went wrong, what it costs. For operators. */
export default function GatewaySettings() {
  const report = useQuery(gatewayQuery());
  const limits = useQuery(limitsQuery());
  if (report.isPending) return <Skeleton rows={8} label={t`Counting`} />;
  if (report.isError && !report.data)
    return (
      <Failure what={t`The figures could not be loaded.`} error={report.error} retry={() => void report.refetch()} />
    );
  return (
    <div className="flex flex-col gap-7">
      <Passed report={report.data} />
      <section aria-labelledby="gateway-rules">
        <h2 id="gateway-rules" className="text-title font-semibold">
          <Trans>Rules for every team</Trans>
        </h2>
        <p className="mb-3 text-fg2">
          <Trans>They apply to each team separately, in addition to the team's own rules.</Trans>
        </p>
        {limits.isPending ? (
          <Skeleton rows={2} label={t`Loading the rules`} />
        ) : limits.isError && !limits.data ? (
          <Failure what={t`The rules could not be loaded.`} error={limits.error} retry={() => void limits.refetch()} />
        ) : (
          <ModelRules rules={limits.data} editable />
        )}
      </section>
      <ModelPrices />
    </div>
  );
}

function Passed({ report: r }: { report: GatewayReport }) {
  const [span, setSpan] = useState<"hour" | "day">("hour");
  const s = r[span];
  return (
    <section aria-labelledby="gateway-passed" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-baseline justify-between gap-3">
        <h2 id="gateway-passed" className="text-title font-semibold">
          <Trans>Model gateway</Trans>
        </h2>
        <label>
          <span className="sr-only">
            <Trans>Time</Trans>
          </span>
          <select
            value={span}
            onChange={(e) => setSpan(e.target.value === "day" ? "day" : "hour")}
            className="control-h rounded-md border border-control bg-bg1 px-2 text-fg"
          >
            <option value="hour">
              <Trans>Last hour</Trans>
            </option>
            <option value="day">
              <Trans>Last day</Trans>
            </option>
          </select>
        </label>
      </div>
      {!r.enabled && (
        <p className="text-needs">
          <span aria-hidden>◆ </span>
          <Trans>Agents do not use it: gateway.enabled is false in config.json.</Trans>
        </p>
      )}
      <p className="text-fg2 tabular-nums">
        <Trans>
          {plural(s.all.requests, { one: "# request", other: "# requests" })}, {count(s.all.failed)} not answered,{" "}
          {count(s.all.refused)} refused by budgets and rules,{" "}
          {plural(s.all.retries, { one: "# further try", other: "# further tries" })}; {count(r.in_flight)} under way
          now. First byte: median {took(s.all.first_byte_p50_ms)}, p95 {took(s.all.first_byte_p95_ms)}
          {r.own_p95_us !== null && (
            <Trans>
              ; the gateway's own part is {took(r.own_p95_us / 1000)} of that (p95), since {exact(r.since)}
            </Trans>
          )}
          .
        </Trans>
      </p>
      {!s.whole && (
        <p className="text-meta text-fg3">
          <Trans>Of the newest 50,000 requests.</Trans>
        </p>
      )}
      {s.errors.length > 0 && (
        <ul aria-label={t`Failures`} className="divide-y divide-hairline border-y border-hairline">
          {s.errors.map((e) => (
            <li
              key={`${e.error} ${e.status}`}
              className="flex min-h-8 flex-wrap items-baseline gap-x-3 py-1 tabular-nums"
            >
              <Mark kind={isFailure(e.error) ? "failed" : "idle"} word={errorWords(e.error)} className="w-52" />
              <span className="w-14 text-fg3">{e.status > 0 ? e.status : ""}</span>
              <span>{plural(e.count, { one: "# time", other: "# times" })}</span>
            </li>
          ))}
        </ul>
      )}
      <Lines id="gateway-upstreams" title={t`By provider`} lines={s.upstreams} />
      <Lines id="gateway-models" title={t`By model`} lines={s.models} />
    </section>
  );
}

function Lines({ id, title, lines }: { id: string; title: string; lines: GatewayLine[] }) {
  if (lines.length === 0) return null;
  return (
    <div
      className="overflow-x-auto"
      role="region"
      aria-labelledby={id}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
    >
      <table className="w-full text-left tabular-nums">
        <caption id={id} className="py-1 text-left font-semibold">
          {title}
        </caption>
        <thead>
          <tr>
            <th scope="col" className="py-1 pr-5 font-medium">
              <Trans>Name</Trans>
            </th>
            {[t`Requests`, t`Failed`, t`Refused`, t`Further tries`, t`First byte, half`, "95 %"].map((t) => (
              <th key={t} scope="col" className="py-1 pr-5 text-right font-medium whitespace-nowrap">
                {t}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((l) => (
            <tr key={l.name} className="border-t border-hairline">
              <th scope="row" className="py-1 pr-5 font-normal whitespace-nowrap">
                {visible(l.name)}
              </th>
              {[
                count(l.requests),
                count(l.failed),
                count(l.refused),
                count(l.retries),
                took(l.first_byte_p50_ms),
                took(l.first_byte_p95_ms),
              ].map((v, i) => (
                <td key={i} className="py-1 pr-5 text-right whitespace-nowrap">
                  {v}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
