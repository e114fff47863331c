import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { sentence, visible } from "@/format/text";
import { clock, duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { historyQuery, type Machine } from "./api";
import { connectionWords } from "./words";

/** When a machine was connected, and why each connection ended. */
export function History({ machine: m }: { machine: Machine }) {
  const now = useNow();
  const history = useInfiniteQuery(historyQuery(m.id));
  const items = history.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-labelledby="machine-history">
      <h2 id="machine-history" className="mb-1 text-title font-semibold">
        <Trans>Connections</Trans>
      </h2>
      {history.isPending ? (
        <Skeleton rows={3} label={t`Loading the connections`} />
      ) : history.isError && !history.data ? (
        <Failure
          what={t`The connections could not be loaded.`}
          error={history.error}
          retry={() => void history.refetch()}
        />
      ) : items.length === 0 ? (
        <p className="text-fg2">
          <Trans>Never connected.</Trans>
        </p>
      ) : (
        <ol className="divide-y divide-hairline border-y border-hairline">
          {items.map((c) => (
            <li key={c.id} className="grid gap-x-4 py-1.5 sm:grid-cols-[11rem_minmax(0,1fr)_auto]">
              <span title={exact(c.began_at)} className="tabular-nums">
                {clock(c.began_at, now)}
              </span>
              <span className="min-w-0 break-words">
                {c.ended_at ? sentence(connectionWords(c)) : <Mark kind="merged" word={t`Connected now`} />}
              </span>
              <span className="text-meta text-fg3 tabular-nums sm:text-right">
                {[
                  duration((c.ended_at ?? Math.max(now, c.began_at)) - c.began_at),
                  c.address && visible(c.address),
                  c.version && visible(c.version),
                ]
                  .filter(Boolean)
                  .join(" · ")}
              </span>
            </li>
          ))}
        </ol>
      )}
      {history.hasNextPage && (
        <Button
          className="mt-2"
          busy={history.isFetchingNextPage && t`Loading`}
          onClick={() => void history.fetchNextPage()}
        >
          <Trans>Older</Trans>
        </Button>
      )}
    </section>
  );
}
