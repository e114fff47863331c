import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Mark } from "@/kit/mark";
import { Page } from "@/kit/page";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { attemptMark, runsQuery } from "./runs";

/** Prompts that were given to several agents at once, newest first. */
export function RunsScreen() {
  const team = useTeam();
  const list = useQuery(runsQuery(team.slug));
  const now = useNow();
  useTitle(t`Comparisons`);
  return (
    <Page title={t`Comparisons`}>
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading the comparisons`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The comparisons could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <Empty title={t`No comparisons yet`}>
          <Trans>
            To give one prompt to several agents, choose “Run with several agents” when you create a workspace.
          </Trans>
        </Empty>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((r) => (
            <li key={r.id} className="py-2">
              <Link
                to="/$team/runs/$run"
                params={{ team: team.slug, run: r.id }}
                className="font-medium hover:underline"
              >
                {r.name}
              </Link>
              <span className="text-meta text-fg3" title={exact(r.created_at)}>
                {" "}
                {r.project_name}, {ago(r.created_at, now)}
              </span>
              <span className="mt-0.5 flex flex-wrap gap-x-4">
                {r.attempts.map((a) => (
                  <span key={a.id} className="flex items-baseline gap-1.5">
                    <span className="text-fg2">{a.agent_name}</span>
                    <Mark kind={attemptMark(a).mark} word={r.kept === a.id ? t`Kept` : attemptMark(a).word} />
                  </span>
                ))}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Page>
  );
}
