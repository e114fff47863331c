import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { clock } from "@/format/time";
import { Empty, Failure, Skeleton } from "@/kit/states";

interface Props {
  workspaceId: string;
  words: string;
  onOpen: (session: string, at: number) => void;
}

const KIND: Record<string, string> = {
  prompt: t`Prompt`,
  text: t`Said`,
  thinking: t`Thought`,
  tool: t`Tool`,
  edit: t`Edit`,
  question: t`Question`,
  answer: t`Answer`,
  error: t`Error`,
  note: t`Note`,
};

/** Search results in all conversations of a workspace. */
export function Found({ workspaceId, words, onOpen }: Props) {
  const now = useNow();
  const found = useQuery({
    queryKey: [...keys.conversations(workspaceId), words],
    queryFn: ({ signal }) =>
      data(
        api.GET("/workspaces/{id}/conversations", {
          params: { path: { id: workspaceId }, query: { q: words, limit: 50 } },
          signal,
        }),
      ),
  });
  if (found.isPending) return <Skeleton label={t`Searching`} />;
  if (found.isError && !found.data)
    return (
      <Failure className="m-4" what={t`The search failed.`} error={found.error} retry={() => void found.refetch()} />
    );
  const sessions = found.data.items;
  if (sessions.length === 0)
    return (
      <Empty title={t`Nothing found`}>
        <Trans>No conversation here contains “{words}”.</Trans>
      </Empty>
    );
  return (
    <div className="min-h-0 flex-1 overflow-y-auto px-4 py-3 md:px-6">
      <div className="max-w-[52rem]">
        {sessions.map((s) => (
          <section key={s.session_id} aria-label={`${s.agent_name}, ${clock(s.started_at, now)}`} className="mb-4">
            <h2 className="mb-1 text-meta text-fg3">
              {s.agent_name}, {clock(s.started_at, now)}
              {s.prompt && <span className="text-fg2">: {s.prompt.slice(0, 100)}</span>}
            </h2>
            <ol className="divide-y divide-hairline border-y border-hairline">
              {s.matches.map((m) => (
                <li key={m.id}>
                  <button
                    type="button"
                    onClick={() => onOpen(s.session_id, m.place)}
                    className="flex min-h-8 w-full items-baseline gap-3 px-1 py-1 text-left hover:bg-bg2 pointer-coarse:min-h-11"
                  >
                    <span className="w-16 shrink-0 text-meta text-fg3">{KIND[m.kind] ?? m.kind}</span>
                    <span className="min-w-0 break-words">{m.snippet}</span>
                  </button>
                </li>
              ))}
            </ol>
            {s.more_matches && (
              <p className="mt-1 text-meta text-fg3">
                <Trans>To see older results, open the session and search there.</Trans>
              </p>
            )}
          </section>
        ))}
      </div>
    </div>
  );
}
