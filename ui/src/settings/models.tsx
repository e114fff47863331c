import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import {
  costWords,
  errorWords,
  inWords,
  isFailure,
  limitsQuery,
  type ModelRequest,
  modelKeys,
  requestsPage,
} from "@/costs/models";
import { useNow } from "@/format/now";
import { count, visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { ModelRules } from "./model-rules";
import { took } from "./server-metrics";

/** Which models the team's agents may ask, and what they asked lately. */
export default function ModelsSettings() {
  const team = useTeam();
  const limits = useQuery(limitsQuery(team.slug));
  return (
    <div key={team.id} className="flex flex-col gap-7">
      <section aria-labelledby="model-rules">
        <h2 id="model-rules" className="text-title font-semibold">
          <Trans>Models</Trans>
        </h2>
        <p className="mb-3 text-fg2">
          <Trans>
            Agents with an API key account call models through this server. The rule with the most specific name decides
            whether a model is allowed. All matching rules limit requests and tokens per minute.
          </Trans>
        </p>
        {limits.isPending ? (
          <Skeleton rows={3} label={t`Loading the rules`} />
        ) : limits.isError && !limits.data ? (
          <Failure what={t`The rules could not be loaded.`} error={limits.error} retry={() => void limits.refetch()} />
        ) : (
          <>
            <ModelRules rules={limits.data} team={team.slug} editable={team.can("quotas.manage")} />
            {limits.data.instance.length > 0 && (
              <p className="mt-3 text-meta text-fg3">
                <Trans>
                  The server's rules also apply:{" "}
                  {limits.data.instance
                    .map((l) =>
                      [
                        l.model,
                        l.allowed ? "" : t`not allowed`,
                        l.requests_minute === null ? "" : t`${count(l.requests_minute)} requests per minute`,
                        l.tokens_minute === null ? "" : t`${count(l.tokens_minute)} tokens per minute`,
                      ]
                        .filter(Boolean)
                        .join(" "),
                    )
                    .join("; ")}
                  .
                </Trans>
              </p>
            )}
          </>
        )}
      </section>
      {team.can("costs.view") && <Requests team={team.slug} />}
    </div>
  );
}

function Requests({ team }: { team: string }) {
  const [failed, setFailed] = useState(false);
  const pages = useInfiniteQuery({
    queryKey: [...modelKeys.requests(team), failed],
    queryFn: ({ pageParam }) => requestsPage(team, pageParam, failed ? "any" : undefined),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const rows = pages.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-labelledby="model-requests">
      <div className="flex flex-wrap items-baseline justify-between gap-3">
        <h2 id="model-requests" className="text-title font-semibold">
          <Trans>Recent requests</Trans>
        </h2>
        <Check label={t`Failed only`} checked={failed} onChange={(e) => setFailed(e.target.checked)} />
      </div>
      {pages.isPending ? (
        <Skeleton rows={6} label={t`Loading the requests`} />
      ) : pages.isError && !pages.data ? (
        <Failure what={t`The requests could not be loaded.`} error={pages.error} retry={() => void pages.refetch()} />
      ) : rows.length === 0 ? (
        <p className="mt-2 text-fg3">{failed ? t`No failed requests.` : t`No requests yet.`}</p>
      ) : (
        <div
          className="mt-2 overflow-x-auto"
          role="region"
          aria-labelledby="model-requests"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          tabIndex={0}
        >
          <table className="w-full text-left tabular-nums">
            <thead>
              <tr>
                {[t`When`, t`Model`, t`In`, t`Out`, t`Cost`, t`First byte`, t`Outcome`].map((t) => (
                  <th key={t} scope="col" className="py-1 pr-5 font-medium whitespace-nowrap">
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((r) => (
                <Row key={r.id} request={r} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pages.hasNextPage && (
        <Button
          className="mt-3"
          busy={pages.isFetchingNextPage && t`Loading`}
          onClick={() => void pages.fetchNextPage()}
        >
          <Trans>Show older</Trans>
        </Button>
      )}
    </section>
  );
}

function Row({ request: r }: { request: ModelRequest }) {
  const now = useNow();
  return (
    <tr className="border-t border-hairline align-baseline">
      <td className="py-1 pr-5 whitespace-nowrap text-fg2">
        <time dateTime={new Date(r.at).toISOString()} title={exact(r.at)}>
          {ago(r.at, now)}
        </time>
      </td>
      <td className="py-1 pr-5 whitespace-nowrap">{visible(r.model) || "–"}</td>
      <td className="py-1 pr-5 whitespace-nowrap">{inWords(r)}</td>
      <td className="py-1 pr-5 whitespace-nowrap">{r.output_tokens === null ? "?" : count(r.output_tokens)}</td>
      <td className="py-1 pr-5 whitespace-nowrap">{costWords(r)}</td>
      <td className="py-1 pr-5 whitespace-nowrap">{r.first_byte_ms > 0 ? took(r.first_byte_ms) : "–"}</td>
      <td className="py-1 pr-5 whitespace-nowrap">
        {isFailure(r.error) ? (
          <Mark kind="failed" word={`${errorWords(r.error)}${r.status > 0 ? ` (${r.status})` : ""}`} />
        ) : (
          <span className="text-fg2">{errorWords(r.error)}</span>
        )}
        {r.attempts > 1 && (
          <span className="ml-2 text-fg3">
            <Trans>{count(r.attempts)} tries</Trans>
          </span>
        )}
      </td>
    </tr>
  );
}
