import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { type CardProps, MergeCard } from "./card";
import { fetchStanding, useMergeStatus } from "./queries";

/** How the branch and its base stand to each other. */
export default function StandingCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const standing = useMergeStatus(w);
  const fetch = useMutation({
    mutationFn: () => fetchStanding(client, w),
    onError: (error) => toastError(t`The remote could not be fetched`, error, () => fetch.mutate()),
  });
  const s = standing.data;
  return (
    <MergeCard
      title={t`Branch and ${w.base}`}
      aside={
        s && (
          <>
            {s.fetched_at && (
              <span className="text-meta text-fg3">
                <Trans>fetched {ago(s.fetched_at, now)}</Trans>
              </span>
            )}
            {(s.remote || s.fetched_at) && team.can("workspace.edit") && (
              <Button busy={fetch.isPending && t`Fetching`} onClick={() => fetch.mutate()}>
                <Trans>Fetch</Trans>
              </Button>
            )}
          </>
        )
      }
    >
      {standing.isPending && <Skeleton rows={2} label={t`Comparing with the base`} />}
      {standing.error && (
        <Failure
          what={t`The branch could not be compared with its base.`}
          error={standing.error}
          retry={() => void standing.refetch()}
        />
      )}
      {s && (
        <dl className="grid gap-x-4 gap-y-1 md:grid-cols-[auto_1fr] [&>dd]:min-w-0 [&>dd]:break-words max-md:[&>dd]:mb-1 [&>dt]:min-w-0 [&>dt]:break-words [&>dt]:text-fg2">
          <dt>
            <span className="font-mono text-code">{w.branch}</span>
          </dt>
          <dd>{w.branch && !s.head ? t`no longer exists` : ahead(s.ahead, s.merged, s.base)}</dd>
          <dt>
            <span className="font-mono text-code">{s.base}</span>
          </dt>
          <dd>
            {!s.base_commit
              ? t`no longer exists`
              : s.behind === 0
                ? t`has nothing new`
                : t`has ${plural(s.behind, { one: "# commit", other: "# commits" })} not in the branch`}
            {s.conflicts.length > 0 && (
              <span className="ml-2 inline-block align-bottom">
                <Mark
                  kind="failed"
                  word={t`${plural(s.conflicts.length, { one: "# file", other: "# files" })} with conflicts`}
                />
              </span>
            )}
          </dd>
          {s.dirty > 0 && (
            <>
              <dt>
                <Trans>Uncommitted</Trans>
              </dt>
              <dd>
                <Trans>
                  {plural(s.dirty, { one: "# file", other: "# files" })}. Only commits are merged and pushed.
                </Trans>
              </dd>
            </>
          )}
          {s.remote && (
            <>
              <dt>
                <Trans>Remote</Trans>
              </dt>
              <dd>{remote(s.pushed, s.base, s.base_ahead, s.base_behind)}</dd>
            </>
          )}
        </dl>
      )}
      {s?.warnings.map((text) => (
        <p key={text} className="flex gap-2 text-needs">
          <span aria-hidden>◆</span>
          <span>{text}</span>
        </p>
      ))}
    </MergeCard>
  );
}

function ahead(n: number, merged: boolean, base: string): string {
  if (n > 0) return t`${plural(n, { one: "# commit", other: "# commits" })} not in ${base}`;
  return merged ? t`merged into ${base}` : t`no commits yet`;
}

function remote(
  pushed: { ahead: number; behind: number } | null,
  base: string,
  baseAhead: number,
  baseBehind: number,
): string {
  const words = [];
  if (!pushed) words.push(t`the branch is not pushed`);
  else if (pushed.behind > 0)
    words.push(
      t`the remote branch has ${plural(pushed.behind, { one: "# commit", other: "# commits" })} not in this branch`,
    );
  else if (pushed.ahead > 0) words.push(t`${plural(pushed.ahead, { one: "# commit", other: "# commits" })} not pushed`);
  else words.push(t`the branch is up to date`);
  if (baseAhead > 0) words.push(t`${plural(baseAhead, { one: "# commit", other: "# commits" })} of ${base} not pushed`);
  if (baseBehind > 0)
    words.push(t`the remote ${base} has ${plural(baseBehind, { one: "# commit", other: "# commits" })} not fetched`);
  return `${words.join("; ")}.`;
}
