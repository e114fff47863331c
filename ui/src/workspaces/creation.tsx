import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Suspense } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import CannotServe from "@/sandboxes/cannot-serve";
import { clearProblem, noteProblem } from "@/sandboxes/problem";
import Starting from "@/sandboxes/starting";
import { StepRow } from "@/sandboxes/steps";
import { useWatched } from "@/sandboxes/watch";
import TerminalPane from "@/sessions/terminal-pane";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";

/** How a workspace comes to be: named steps with their times, cancel in each, retry after a failure. */
export function Creation({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const client = useQueryClient();
  const failed = w.state === "failed";
  const edit = team.can("workspace.edit");
  const after = {
    onSuccess: (now: Workspace) => {
      client.setQueryData(keys.workspace(w.id), now);
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    },
  };
  const cancel = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/cancel", { params: { path: { id: w.id } } })),
    onError: (error) => toastError(t`The creation was not cancelled`, error),
    ...after,
  });
  const retry = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/retry", { params: { path: { id: w.id } } })),
    onMutate: () => clearProblem(w.id),
    onError: (error) => noteProblem(w.id, error) || toastError(t`The creation was not tried again`, error),
    ...after,
  });
  const { place, name, sandbox, starting, problem } = useWatched(w);
  const start = w.start;
  const setup = w.steps.find((s) => s.session_id && (s.state === "running" || s.state === "failed"));

  return (
    <div className="flex h-full min-h-0 flex-col gap-4 overflow-y-auto p-4 md:p-6">
      <section aria-labelledby="creation" className="w-full max-w-2xl">
        <h2 id="creation" className="text-title font-semibold">
          {failed ? t`The workspace could not be created` : t`Creating the workspace`}
        </h2>
        {failed && (
          <p role="alert" className="mt-0.5 break-words text-fg2">
            <Trans>{w.state_reason || t`A step failed.`} Everything created so far was removed.</Trans>
          </p>
        )}
        <ol className="mt-3" aria-live="polite">
          {w.steps.map((s) => (
            <StepRow key={s.name} step={s} />
          ))}
          {start && !failed && (
            <StepRow
              step={{
                name: "session",
                title: t`Start ${start.agent_name}`,
                state: "pending",
                detail: "",
                started_at: null,
                ended_at: null,
                session_id: null,
              }}
            />
          )}
        </ol>
        {failed && problem && (
          <CannotServe
            workspace={w}
            place={place}
            problem={problem}
            onRetry={() => retry.mutate()}
            retrying={retry.isPending}
          />
        )}
        {!failed && start && !starting && (
          <p className="mt-2 text-fg2">
            <Trans>
              You can leave this page. It continues in the background, and the session starts when this is done.
            </Trans>
          </p>
        )}
        {edit && (
          <div className="mt-4 flex gap-2">
            {failed ? (
              !problem && (
                <Button look="primary" busy={retry.isPending && t`Retrying`} onClick={() => retry.mutate()}>
                  <Trans>Try again</Trans>
                </Button>
              )
            ) : (
              <Button busy={cancel.isPending && t`Cancelling`} onClick={() => cancel.mutate()}>
                <Trans>Cancel</Trans>
              </Button>
            )}
          </div>
        )}
      </section>
      {!failed && starting && sandbox && <Starting workspace={w} sandbox={sandbox} name={name} />}
      {setup?.session_id && (
        <section
          aria-label={t`Output of the setup script`}
          className="min-h-60 flex-1 overflow-hidden rounded-md border border-hairline"
        >
          <Suspense>
            <TerminalPane sessionId={setup.session_id} workspaceId={w.id} readOnly />
          </Suspense>
        </section>
      )}
    </div>
  );
}
