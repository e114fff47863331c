import { useMutation, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { api, data, type Step, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useTeam } from "@/app/team";
import { useNow } from "@/format/now";
import { duration } from "@/format/time";
import { Button } from "@/kit/button";
import { type MarkKind, Shape } from "@/kit/mark";
import { Output } from "@/kit/states";
import { toastError } from "@/state/toasts";
import { pendingStarts } from "@/workspaces/pending-start";

const TerminalPane = lazy(() => import("./terminal-pane"));

const STEP: Record<Step["state"], { mark: MarkKind; word: string }> = {
  pending: { mark: "idle", word: "Waiting" },
  running: { mark: "running", word: "Under way" },
  done: { mark: "merged", word: "Done" },
  failed: { mark: "failed", word: "Failed" },
  cancelled: { mark: "stopped", word: "Cancelled" },
  skipped: { mark: "stopped", word: "Skipped" },
};

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
    onError: (error) => toastError("The creation was not cancelled", error),
    ...after,
  });
  const retry = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/retry", { params: { path: { id: w.id } } })),
    onError: (error) => toastError("The creation was not tried again", error),
    ...after,
  });
  const start = pendingStarts().find((p) => p.workspaceId === w.id);
  const setup = w.steps.find((s) => s.session_id && (s.state === "running" || s.state === "failed"));

  return (
    <div className="flex h-full min-h-0 flex-col gap-4 overflow-y-auto p-4 md:p-6">
      <section aria-labelledby="creation" className="w-full max-w-2xl">
        <h2 id="creation" className="text-title font-semibold">
          {failed ? "The workspace was not made" : "Making the workspace"}
        </h2>
        {failed && (
          <p role="alert" className="mt-0.5 break-words text-fg2">
            {w.state_reason || "A step failed."} Nothing half-made was left behind.
          </p>
        )}
        <ol className="mt-3" aria-live="polite">
          {w.steps.map((s) => (
            <StepRow key={s.name} step={s} />
          ))}
        </ol>
        {!failed && start && (
          <p className="mt-2 text-fg2">
            The session starts as soon as this is done. You may leave this page; it goes on.
          </p>
        )}
        {edit && (
          <div className="mt-4 flex gap-2">
            {failed ? (
              <Button look="primary" busy={retry.isPending && "Trying again"} onClick={() => retry.mutate()}>
                Try again
              </Button>
            ) : (
              <Button busy={cancel.isPending && "Cancelling"} onClick={() => cancel.mutate()}>
                Cancel
              </Button>
            )}
          </div>
        )}
      </section>
      {setup?.session_id && (
        <section
          aria-label="Output of the setup script"
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

function StepRow({ step: s }: { step: Step }) {
  const now = useNow(1000);
  const time = s.started_at ? (s.ended_at ?? Math.max(now, s.started_at)) - s.started_at : 0;
  const look = STEP[s.state];
  const long = s.detail.includes("\n") || s.detail.length > 120;
  return (
    <li className="border-t border-hairline py-2 first:border-t-0">
      <div className="flex items-baseline gap-2.5">
        <Shape kind={look.mark} className="translate-y-px" />
        <span className="min-w-0 flex-1">
          <span className={s.state === "pending" ? "text-fg3" : ""}>{s.title}</span>
          <span className="sr-only">: {look.word}</span>
          {s.detail && !long && <span className="block text-meta break-words text-fg3">{s.detail}</span>}
        </span>
        <span className="text-meta text-fg3 tabular-nums">
          {s.state === "skipped" ? "not needed" : s.started_at ? duration(time) : ""}
        </span>
      </div>
      {long && (
        <details open={s.state === "failed"} className="pl-5">
          <summary className="w-fit cursor-pointer text-meta text-accent">Output</summary>
          <Output text={s.detail} />
        </details>
      )}
    </li>
  );
}
