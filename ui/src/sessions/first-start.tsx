import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { StepRow } from "@/sandboxes/steps";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";

/** The steps of a workspace that is ready, and the start of its first session as the last of them. */
export default function FirstStart({ workspace: w, may }: { workspace: Workspace; may: boolean }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow(1000);
  const params = { path: { id: w.id } };
  const onSuccess = () => {
    void client.invalidateQueries({ queryKey: keys.workspace(w.id) });
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
  };
  const again = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/start", { params })),
    onSuccess,
    onError: (error) => toastError(t`The session was not started`, error),
  });
  const forget = useMutation({
    mutationFn: () => data(api.DELETE("/workspaces/{id}/start", { params })),
    onSuccess,
    onError: (error) => toastError(t`The session was not forgotten`, error),
  });
  const start = w.start;
  if (!start) return null;
  const failed = start.state === "failed";
  return (
    <section aria-labelledby="first-start" className="h-full overflow-y-auto p-4 md:p-6">
      <div className="max-w-2xl">
        <h2 id="first-start" className="text-title font-semibold">
          {failed ? t`${start.agent_name} did not start` : t`Starting ${start.agent_name}`}
        </h2>
        {failed && (
          <p role="alert" className="mt-0.5 break-words text-fg2">
            {start.reason}
          </p>
        )}
        <ol className="mt-3" aria-live="polite">
          {w.steps.map((s) => (
            <StepRow key={s.name} step={s} />
          ))}
          <StepRow
            step={{
              name: "session",
              title: t`Start ${start.agent_name}`,
              state: failed ? "failed" : "running",
              detail: "",
              started_at: failed ? null : Math.min(start.at, now),
              ended_at: null,
              session_id: null,
            }}
          />
        </ol>
        {failed && may && (
          <div className="mt-4 flex flex-wrap gap-2">
            <Button look="primary" busy={again.isPending && t`Starting`} onClick={() => again.mutate()}>
              <Trans>Start</Trans>
            </Button>
            <Button busy={forget.isPending && t`Opening`} onClick={() => forget.mutate()}>
              <Trans>Start another session</Trans>
            </Button>
          </div>
        )}
      </div>
    </section>
  );
}
