import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { duration } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Shape } from "@/kit/mark";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import type { RemoteSandbox } from "./remote";
import { progressWords } from "./remote-words";
import { StepRow } from "./steps";

/** Stops the making of a sandbox. */
export function useCancelStart(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/destroy-sandbox", { params: { path: { id } } })),
    onError: (error) => toastError(t`The start was not cancelled`, error),
    onSettled: () => void client.invalidateQueries({ queryKey: keys.sandbox(id) }),
  });
}

/** The start of a sandbox: steps with duration and progress. It continues when the user leaves the page. */
export default function Starting({
  workspace: w,
  sandbox: s,
  name,
}: {
  workspace: Workspace;
  sandbox: RemoteSandbox;
  name: string;
}) {
  const team = useTeam();
  const cancel = useCancelStart(w.id);
  return (
    <section aria-labelledby="starting" className="w-full max-w-2xl">
      <h2 id="starting" className="text-title font-semibold">
        <Trans>Starting {name}</Trans>
      </h2>
      <ol className="mt-2" aria-live="polite">
        {s.steps.map((step) => (
          <StepRow key={step.name} step={step} />
        ))}
      </ol>
      <p className="mt-2 text-fg2">
        <Trans>You can leave this page. It continues in the background.</Trans>
      </p>
      {team.can("terminal.type") && (
        <div className="mt-3">
          <Button busy={cancel.isPending && t`Cancelling`} onClick={() => cancel.mutate()}>
            <Trans>Cancel</Trans>
          </Button>
        </div>
      )}
    </section>
  );
}

/** The same in one line above a terminal, with its steps on demand. */
export function StartingBar({
  workspace: w,
  sandbox: s,
  name,
}: {
  workspace: Workspace;
  sandbox: RemoteSandbox;
  name: string;
}) {
  const team = useTeam();
  const now = useNow(1000);
  const cancel = useCancelStart(w.id);
  const { steps } = s;
  const at = steps.find((x) => x.state === "running");
  const progress = at ? progressWords(at) : "";
  const ask = async () => {
    const yes = await confirm({
      title: t`Cancel the start of ${name}?`,
      body: t`The sandbox does not start. Files and commits do not change.`,
      action: t`Cancel the start`,
      danger: true,
    });
    if (yes) cancel.mutate();
  };
  return (
    <details className="border-b border-hairline bg-bg2 px-4 py-1.5">
      <summary className="flex cursor-pointer flex-wrap items-center gap-x-2 gap-y-1">
        <Shape kind="setup" />
        <span role="status">
          <Trans>Starting {name}</Trans>
          {at && <span className="text-fg2">: {at.title}</span>}
        </span>
        <span aria-hidden className="text-meta text-fg3 tabular-nums">
          {[progress, s.started_at && duration(Math.max(0, now - s.started_at))].filter(Boolean).join(", ")}
        </span>
        <span className="text-meta text-accent">
          <Trans>Steps</Trans>
        </span>
      </summary>
      <ol className="max-w-2xl">
        {steps.map((step) => (
          <StepRow key={step.name} step={step} />
        ))}
      </ol>
      {team.can("terminal.type") && (
        <Button className={cx("my-1")} busy={cancel.isPending && t`Cancelling`} onClick={() => void ask()}>
          <Trans>Cancel</Trans>
        </Button>
      )}
    </details>
  );
}
