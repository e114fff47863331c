import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { clock, day, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Empty, Failure, Skeleton } from "@/kit/states";

type Activity = Schemas["Activity"];

/** A replay begins so long before what it is to show. */
const LEAD = 5000;

/** What happened in the workspace, newest first. */
export default function ActivityTab({ workspace: w }: { workspace: Workspace }) {
  const list = useInfiniteQuery({
    queryKey: keys.activity(w.id),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/activity", {
          params: { path: { id: w.id }, query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const now = useNow();
  if (list.isPending) return <Skeleton rows={6} label="Loading the activity" />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-4"
        what="The activity could not be loaded."
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  const items = list.data.pages.flatMap((p) => p.items);
  if (items.length === 0)
    return <Empty title="Nothing happened yet">Sessions, commits, merges and what people do are listed here.</Empty>;
  const days = new Map<string, Activity[]>();
  for (const a of items) {
    const d = day(a.at, now);
    days.set(d, [...(days.get(d) ?? []), a]);
  }
  return (
    <div className="h-full overflow-y-auto px-4 py-4 md:px-6">
      <div className="max-w-2xl">
        {[...days].map(([d, rows]) => (
          <section key={d} aria-label={d} className="mb-4">
            <h2 className="mb-1 text-meta text-fg3">{d}</h2>
            <ol className="divide-y divide-hairline border-y border-hairline">
              {rows.map((a) => (
                <li key={a.id} className="flex items-baseline gap-3 py-1.5">
                  <time
                    dateTime={new Date(a.at).toISOString()}
                    title={exact(a.at)}
                    className="w-16 shrink-0 text-meta text-fg3"
                  >
                    {clock(a.at, a.at)}
                  </time>
                  <span className="min-w-0 flex-1 break-words">
                    {a.text}
                    {a.actor_name && <span className="text-fg3"> · {a.actor_name}</span>}
                  </span>
                  {(a.kind === "commit" || a.kind === "merge") && (
                    <Link
                      to="."
                      search={(s) => ({ ...s, tab: "history", session: undefined, at: undefined, when: a.at - LEAD })}
                      className="shrink-0 text-meta text-accent hover:underline"
                    >
                      Replay
                    </Link>
                  )}
                </li>
              ))}
            </ol>
          </section>
        ))}
        {list.hasNextPage && (
          <Button busy={list.isFetchingNextPage && "Loading"} onClick={() => void list.fetchNextPage()}>
            Show older
          </Button>
        )}
      </div>
    </div>
  );
}
