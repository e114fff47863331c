import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { visible } from "@/format/text";
import { clock, duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Failure, Output, Skeleton } from "@/kit/states";
import { callerOf, OUTCOMES, type ToolCall } from "./words";

/** The calls of Parawork's tools in a workspace, newest first. */
export default function ToolCalls({ workspace }: { workspace: string }) {
  const list = useInfiniteQuery({
    queryKey: keys.toolCalls(workspace),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/tool-calls", {
          params: { path: { id: workspace }, query: { limit: 30, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-label={t`Tool calls`} className="mb-4">
      {list.isPending && <Skeleton rows={3} label={t`Loading the tool calls`} />}
      {list.isError && !list.data && (
        <Failure what={t`The tool calls could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">
          <Trans>No tool calls yet. What an agent does with its own tools is in its conversation.</Trans>
        </p>
      )}
      {items.length > 0 && (
        <ol className="divide-y divide-hairline border-y border-hairline">
          {items.map((c) => (
            <Row key={c.id} call={c} />
          ))}
        </ol>
      )}
      {list.hasNextPage && (
        <Button className="mt-2" busy={list.isFetchingNextPage && t`Loading`} onClick={() => void list.fetchNextPage()}>
          <Trans>Show older</Trans>
        </Button>
      )}
    </section>
  );
}

function Row({ call: c }: { call: ToolCall }) {
  const outcome = OUTCOMES[c.outcome];
  const at = c.started_at;
  return (
    <li>
      <details>
        <summary className="flex cursor-pointer flex-wrap items-baseline gap-x-3 py-1.5 leading-5">
          <time dateTime={new Date(at).toISOString()} title={exact(at)} className="text-meta text-fg3">
            {clock(at, Date.now())}
          </time>
          <span className="font-mono text-code break-all">{c.tool}</span>
          <span className="min-w-0 flex-1 truncate text-fg3">{visible(callerOf(c))}</span>
          <Mark kind={outcome.mark} word={outcome.word} className="text-meta" />
          {c.outcome !== "running" && <span className="text-meta text-fg3">{duration(c.duration_ms)}</span>}
        </summary>
        <div className="pb-2 text-meta">
          {c.cause && <p className="break-words text-fg2">{c.cause}</p>}
          <p className="mt-1 text-fg3">
            <Trans>Arguments</Trans>
          </p>
          <Output text={c.arguments || t`none`} />
          {c.result && (
            <>
              <p className="mt-2 text-fg3">{c.truncated ? t`Result, shortened` : t`Result`}</p>
              <Output text={c.result} />
            </>
          )}
        </div>
      </details>
    </li>
  );
}
