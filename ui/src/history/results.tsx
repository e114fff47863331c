import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { type SearchWish, searchQuery } from "@/api/history";
import { useNow } from "@/format/now";
import { bytes, count } from "@/format/text";
import { clock, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Failure, Skeleton } from "@/kit/states";

/** What a search over a workspace's history found, newest first. A click plays that moment. */
export function Results({ workspaceId, wish, shown }: { workspaceId: string; wish: SearchWish; shown: string }) {
  const found = useInfiniteQuery(searchQuery(workspaceId, wish));
  const now = useNow();
  if (found.isPending) return <Skeleton rows={5} label={t`Searching`} />;
  if (found.isError && !found.data)
    return (
      <Failure className="m-3" what={t`The search failed.`} error={found.error} retry={() => void found.refetch()} />
    );
  const hits = found.data.pages.flatMap((p) => p.items);
  const last = found.data.pages.at(-1)!;
  return (
    <div className="pb-3">
      <p role="status" className="px-3 py-1.5 text-meta text-fg3">
        <Trans>
          {hits.length === 0 ? t`Nothing found` : plural(hits.length, { one: "# line", other: "# lines" })}
          {found.hasNextPage ? t` so far` : ""} in {bytes(found.data.pages[0]!.bytes)} of output
        </Trans>
      </p>
      <ol aria-label={t`Results`} className="divide-y divide-hairline border-y border-hairline">
        {hits.map((h) => (
          <li key={`${h.session_id} ${h.offset}`}>
            <Link
              to="."
              search={(s) => ({ ...s, session: h.session_id, at: h.offset })}
              aria-current={shown === `${h.session_id} ${h.offset}` ? "true" : undefined}
              className="block px-3 py-1.5 -outline-offset-2 hover:bg-bg2 aria-[current=true]:bg-bg3"
            >
              <span className="flex justify-between gap-3 text-meta text-fg3">
                <span className="truncate">
                  {h.agent_name}
                  {h.repeats > 0 && t`, printed ${count(h.repeats + 1)} times`}
                </span>
                <time dateTime={new Date(h.at).toISOString()} title={exact(h.at)} className="shrink-0">
                  {clock(h.at, now)}
                </time>
              </span>
              <Line hit={h} />
            </Link>
          </li>
        ))}
      </ol>
      {found.isError && <Failure className="m-3" what={t`The search stopped.`} error={found.error} />}
      {found.hasNextPage && (
        <Button
          className="mx-3 mt-2"
          busy={found.isFetchingNextPage && t`Searching`}
          onClick={() => void found.fetchNextPage()}
        >
          {last.late ? t`Search further back` : t`Show older`}
        </Button>
      )}
    </div>
  );
}

/** The line with what was found in it marked. */
function Line({ hit }: { hit: Schemas["SearchHit"] }) {
  const chars = Array.from(hit.line);
  const part = (from: number, to?: number) => chars.slice(from, to).join("");
  return (
    <span className="line-clamp-3 font-mono text-code break-words whitespace-pre-wrap">
      {part(0, hit.start)}
      <mark className="rounded-sm bg-needs/30 text-fg underline decoration-needs">{part(hit.start, hit.end)}</mark>
      {part(hit.end)}
    </span>
  );
}
