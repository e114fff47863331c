import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { projectsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/field";
import { Mark, type MarkKind } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { type CardProps, MergeCard } from "./card";
import { CheckRow, checkKeys } from "./check-runs";
import { useMergeStatus } from "./queries";

type Entry = Schemas["QueueEntry"];
type Strategy = Entry["strategy"];

const MARKS: Record<Entry["state"], { kind: MarkKind; word: string }> = {
  waiting: { kind: "setup", word: t`Queued` },
  checking: { kind: "running", word: t`Running checks` },
  merging: { kind: "running", word: t`Merging` },
  merged: { kind: "merged", word: t`Merged` },
  failed: { kind: "failed", word: t`Not merged` },
  cancelled: { kind: "stopped", word: t`Removed` },
};

/** The merge queue: the branch is merged when its turn comes and the checks pass on the result. */
export default function QueueCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const queued = useQuery({
    queryKey: checkKeys.queued(w.id),
    queryFn: () => data(api.GET("/workspaces/{id}/merge-queue", { params: { path: { id: w.id } } })),
  });
  const project = useQuery(projectsQuery(team.slug)).data?.find((p) => p.id === w.project_id);
  const standing = useMergeStatus(w).data;
  const [picked, setPicked] = useState<Strategy>();
  const strategy = picked ?? project?.merging.strategy ?? "merge";
  const refresh = () => {
    void client.invalidateQueries({ queryKey: checkKeys.queued(w.id) });
    void client.invalidateQueries({ queryKey: checkKeys.queue(w.project_id) });
  };
  const add = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/merge-queue", {
          params: { path: { id: w.id } },
          body: { strategy, ...(standing?.head ? { expected_head: standing.head } : {}) },
        }),
      ),
    onSettled: refresh,
  });
  const leave = useMutation({
    mutationFn: () => api.DELETE("/workspaces/{id}/merge-queue", { params: { path: { id: w.id } } }),
    onSettled: refresh,
  });
  const e = queued.data?.entry;
  const open = e && e.ended_at === null;
  const may = team.can("workspace.merge");
  return (
    <MergeCard
      title={t`Merge queue`}
      aside={
        e && (
          <Mark
            kind={MARKS[e.state].kind}
            word={open && e.state === "waiting" ? t`Number ${e.position}` : MARKS[e.state].word}
          />
        )
      }
    >
      {queued.isPending && <Skeleton rows={2} label={t`Loading the queue`} />}
      {queued.error && (
        <Failure what={t`The queue could not be loaded.`} error={queued.error} retry={() => void queued.refetch()} />
      )}
      {e?.reason && <p className="break-words text-fg2">{e.reason}</p>}
      {e && e.runs.length > 0 && (
        <ul aria-label={t`Checks on the merged result`} className="flex flex-col divide-y divide-hairline">
          {e.runs.map((r) => (
            <CheckRow key={r.id} name={r.name} required={r.required} run={r} />
          ))}
        </ul>
      )}
      {!open && (
        <p className="text-fg2">
          <Trans>
            Merges one workspace at a time. Each merge result is computed from the current {w.base} , checked in a
            separate folder, and lands only if the checks pass.
          </Trans>
        </p>
      )}
      {may && !open && queued.data && (
        <div className="flex flex-wrap items-center justify-between gap-3">
          <Segmented<Strategy>
            label={t`Merge method`}
            value={strategy}
            onChange={setPicked}
            options={[
              ["merge", t`Merge`],
              ["squash", t`Squash`],
              ["rebase", t`Rebase`],
            ]}
          />
          <Button
            disabled={standing !== undefined && standing.ahead === 0}
            busy={add.isPending && t`Adding`}
            onClick={() => add.mutate()}
          >
            {e?.state === "failed" ? t`Add to the queue again` : t`Add to the queue`}
          </Button>
        </div>
      )}
      {open && (
        <div className="flex flex-wrap items-center justify-between gap-3">
          <Link
            to="/$team/p/$project"
            params={{ team: team.slug, project: w.project_id }}
            hash="project-queue"
            className="text-accent underline"
          >
            <Trans>View the queue</Trans>
          </Link>
          {may && e.state !== "merging" && (
            <Button busy={leave.isPending && t`Removing`} onClick={() => leave.mutate()}>
              <Trans>Remove from the queue</Trans>
            </Button>
          )}
        </div>
      )}
      <FormError error={add.error ?? leave.error} />
    </MergeCard>
  );
}
