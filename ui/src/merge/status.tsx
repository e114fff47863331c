import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { plural } from "@/format/text";
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
    onError: (error) => toastError("The remote could not be fetched", error, () => fetch.mutate()),
  });
  const s = standing.data;
  return (
    <MergeCard
      title={`Branch and ${w.base}`}
      aside={
        s && (
          <>
            {s.fetched_at && <span className="text-meta text-fg3">fetched {ago(s.fetched_at, now)}</span>}
            {(s.remote || s.fetched_at) && team.can("workspace.edit") && (
              <Button busy={fetch.isPending && "Fetching"} onClick={() => fetch.mutate()}>
                Fetch
              </Button>
            )}
          </>
        )
      }
    >
      {standing.isPending && <Skeleton rows={2} label="Comparing with the base" />}
      {standing.error && (
        <Failure
          what="The branch could not be compared with its base."
          error={standing.error}
          retry={() => void standing.refetch()}
        />
      )}
      {s && (
        <dl className="grid gap-x-4 gap-y-1 md:grid-cols-[auto_1fr] [&>dd]:min-w-0 [&>dd]:break-words max-md:[&>dd]:mb-1 [&>dt]:min-w-0 [&>dt]:break-words [&>dt]:text-fg2">
          <dt>
            <span className="font-mono text-code">{w.branch}</span>
          </dt>
          <dd>{w.branch && !s.head ? "no longer exists" : ahead(s.ahead, s.merged, s.base)}</dd>
          <dt>
            <span className="font-mono text-code">{s.base}</span>
          </dt>
          <dd>
            {!s.base_commit
              ? "no longer exists"
              : s.behind === 0
                ? "has nothing new"
                : `has ${plural(s.behind, "commit")} not in the branch`}
            {s.conflicts.length > 0 && (
              <span className="ml-2 inline-block align-bottom">
                <Mark kind="failed" word={`${plural(s.conflicts.length, "file")} with conflicts`} />
              </span>
            )}
          </dd>
          {s.dirty > 0 && (
            <>
              <dt>Uncommitted</dt>
              <dd>{plural(s.dirty, "file")}. Only commits are merged and pushed.</dd>
            </>
          )}
          {s.remote && (
            <>
              <dt>Remote</dt>
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
  if (n > 0) return `${plural(n, "commit")} not in ${base}`;
  return merged ? `merged into ${base}` : "no commits yet";
}

function remote(
  pushed: { ahead: number; behind: number } | null,
  base: string,
  baseAhead: number,
  baseBehind: number,
): string {
  const words = [];
  if (!pushed) words.push("the branch is not pushed");
  else if (pushed.behind > 0) words.push(`the remote branch has ${plural(pushed.behind, "commit")} not in this branch`);
  else if (pushed.ahead > 0) words.push(`${plural(pushed.ahead, "commit")} not pushed`);
  else words.push("the branch is up to date");
  if (baseAhead > 0) words.push(`${plural(baseAhead, "commit")} of ${base} not pushed`);
  if (baseBehind > 0) words.push(`the remote ${base} has ${plural(baseBehind, "commit")} not fetched`);
  return `${words.join("; ")}.`;
}
