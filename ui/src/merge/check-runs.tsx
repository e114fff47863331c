import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, duration } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark, type MarkKind } from "@/kit/mark";
import { Busy, Failure, Output } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";

export type CheckRun = Schemas["CheckRun"];

export const checkKeys = {
  checks: (workspace: string) => ["workspace", workspace, "checks"] as const,
  output: (workspace: string, run: string) => ["workspace", workspace, "checks", run] as const,
  queued: (workspace: string) => ["workspace", workspace, "queued"] as const,
  queue: (project: string) => ["project", project, "merge-queue"] as const,
  overlaps: (project: string) => ["project", project, "overlaps"] as const,
};

/** A check's state as shape and word. */
export const CHECK_MARKS: Record<Schemas["ChecksState"], { kind: MarkKind; word: string }> = {
  none: { kind: "idle", word: t`Not run` },
  waiting: { kind: "setup", word: t`Waiting` },
  running: { kind: "running", word: t`Running` },
  passed: { kind: "merged", word: t`Passed` },
  failed: { kind: "failed", word: t`Failed` },
  stale: { kind: "idle", word: t`Outdated` },
};

const RUN_MARKS: Record<CheckRun["state"], { kind: MarkKind; word: string }> = {
  waiting: CHECK_MARKS.waiting,
  running: CHECK_MARKS.running,
  passed: CHECK_MARKS.passed,
  failed: CHECK_MARKS.failed,
  timed_out: { kind: "failed", word: t`Timed out` },
  cancelled: { kind: "stopped", word: t`Cancelled` },
  lost: { kind: "failed", word: t`Lost` },
};

/** One run of a check: how it stands, what it printed, a way to end it. mark is how the check stands, where that is not the run's own word. */
export function CheckRow({
  name,
  required,
  run,
  mark,
}: {
  name: string;
  required: boolean;
  run: CheckRun | null;
  mark?: { kind: MarkKind; word: string } | undefined;
}) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow(1000);
  const [open, setOpen] = useState(false);
  const going = run?.state === "waiting" || run?.state === "running";
  const cancel = useMutation({
    mutationFn: () => api.POST("/check-runs/{id}/cancel", { params: { path: { id: run?.id ?? "" } } }),
    onSettled: () => run && client.invalidateQueries({ queryKey: checkKeys.checks(run.workspace_id) }),
    onError: (error) => toastError(t`The check was not cancelled`, error),
  });
  const shown = mark ?? (run ? RUN_MARKS[run.state] : CHECK_MARKS.none);
  return (
    <li className="flex flex-col gap-1 py-1.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="min-w-0 flex-1 break-words">
          <span className="font-medium">{name}</span>
          {!required && (
            <span className="text-meta text-fg3">
              {" "}
              <Trans>not required</Trans>
            </span>
          )}
        </span>
        <Mark kind={shown.kind} word={shown.word} />
        {run && (
          <span className="text-meta text-fg3 tabular-nums">
            {run.started_at
              ? duration((run.ended_at ?? now) - run.started_at)
              : run.ended_at
                ? ago(run.ended_at, now)
                : ""}
          </span>
        )}
        {run && (
          <Button look="quiet" aria-expanded={open} onClick={() => setOpen(!open)} aria-label={t`Output of ${name}`}>
            <Trans>Output</Trans>
          </Button>
        )}
        {going && team.can("workspace.edit") && (
          <Button
            look="quiet"
            busy={cancel.isPending && t`Cancelling`}
            onClick={() => cancel.mutate()}
            aria-label={t`Cancel ${name}`}
          >
            <Trans>Cancel</Trans>
          </Button>
        )}
      </div>
      {run?.reason && <p className="text-meta break-words text-fg2">{run.reason}</p>}
      {run && open && <RunOutput run={run} going={going} />}
    </li>
  );
}

function RunOutput({ run, going }: { run: CheckRun; going: boolean }) {
  const output = useQuery({
    queryKey: [...checkKeys.output(run.workspace_id, run.id), run.state],
    queryFn: () =>
      data(
        api.GET("/check-runs/{id}/output", { params: { path: { id: run.id } }, parseAs: "text" }),
      ) as Promise<string>,
    refetchInterval: going ? 1500 : false,
  });
  if (output.isPending)
    return (
      <Busy>
        <Trans>Loading the output…</Trans>
      </Busy>
    );
  if (output.error)
    return (
      <Failure what={t`The output could not be loaded.`} error={output.error} retry={() => void output.refetch()} />
    );
  return (
    <div>
      <p className="font-mono text-code break-all whitespace-pre-wrap text-fg3">{run.command}</p>
      <Output text={output.data || t`No output.`} className="max-h-96 font-mono" />
      {run.truncated && (
        <p className="text-meta text-fg3">
          <Trans>The beginning is truncated.</Trans>
        </p>
      )}
    </div>
  );
}
