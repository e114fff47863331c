import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { type CardProps, MergeCard } from "./card";
import { CHECK_MARKS, CheckRow, checkKeys } from "./check-runs";

/** The project's checks on the workspace's files. */
export default function ChecksCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const checks = useQuery({
    queryKey: checkKeys.checks(w.id),
    queryFn: () => data(api.GET("/workspaces/{id}/checks", { params: { path: { id: w.id } } })),
  });
  const run = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/checks/run", { params: { path: { id: w.id } }, body: {} })),
    onSuccess: (found) => client.setQueryData(checkKeys.checks(w.id), found),
  });
  const c = checks.data;
  const may = team.can("workspace.edit");
  const edit = (words: string) =>
    team.can("project.manage") && (
      <Link
        to="/$team/p/$project"
        params={{ team: team.slug, project: w.project_id }}
        hash="project-checks"
        className="text-accent underline"
      >
        {words}
      </Link>
    );
  return (
    <MergeCard
      title={t`Checks`}
      aside={
        c && c.items.length > 0 ? (
          <>
            <Mark {...CHECK_MARKS[c.state]} />
            {may && (
              <Button busy={run.isPending && t`Starting`} onClick={() => run.mutate()}>
                {c.state === "running" || c.state === "waiting" ? t`Run again` : t`Run checks`}
              </Button>
            )}
          </>
        ) : undefined
      }
    >
      {checks.isPending && <Skeleton rows={2} label={t`Loading the checks`} />}
      {checks.error && (
        <Failure what={t`The checks could not be loaded.`} error={checks.error} retry={() => void checks.refetch()} />
      )}
      {c?.items.length === 0 && (
        <p className="text-fg2">
          <Trans>
            The project has no checks. Checks are commands, such as its tests, that verify the work.{" "}
            {edit(t`Add checks`)}
          </Trans>
        </p>
      )}
      {c && c.items.length > 0 && (
        <>
          <p className="text-fg2">
            <Trans>Checks run in the workspace's sandbox, on its current files. {edit(t`Edit the checks`)}</Trans>
          </p>
          <ul className="flex flex-col divide-y divide-hairline">
            {c.items.map((i) => (
              <CheckRow
                key={i.check.id}
                name={i.check.name}
                required={i.check.required}
                run={i.run}
                mark={i.run?.state === "cancelled" || i.run?.state === "timed_out" ? undefined : CHECK_MARKS[i.state]}
              />
            ))}
          </ul>
        </>
      )}
      <FormError error={run.error} />
    </MergeCard>
  );
}
