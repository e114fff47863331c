import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Workspace } from "@/api/client";
import { tell } from "@/api/problem";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { StepRow } from "@/sandboxes/steps";
import { useStore } from "@/state/store";
import { addPendingStart, dropFirstStart, firstStarts } from "./pending-start";

/** The first session of a workspace, while it is waited for or when it did not start. */
export const useFirstStart = (workspaceId: string) => useStore(firstStarts)[workspaceId];

/** The steps of a workspace that is ready, and the start of its first session as the last of them. */
export default function FirstStart({ workspace: w }: { workspace: Workspace }) {
  const first = useFirstStart(w.id);
  const now = useNow(1000);
  if (!first) return null;
  const { start, since, error } = first;
  const failed = error !== undefined;
  return (
    <section aria-labelledby="first-start" className="h-full overflow-y-auto p-4 md:p-6">
      <div className="max-w-2xl">
        <h2 id="first-start" className="text-title font-semibold">
          {failed ? t`${start.name} did not start` : t`Starting ${start.name}`}
        </h2>
        {failed && (
          <p role="alert" className="mt-0.5 break-words text-fg2">
            {tell(error).message}
          </p>
        )}
        <ol className="mt-3" aria-live="polite">
          {w.steps.map((s) => (
            <StepRow key={s.name} step={s} />
          ))}
          <StepRow
            step={{
              name: "session",
              title: t`Start ${start.name}`,
              state: failed ? "failed" : "running",
              detail: "",
              started_at: failed ? null : (since ?? now),
              ended_at: null,
              session_id: null,
            }}
          />
        </ol>
        {failed && (
          <div className="mt-4 flex flex-wrap gap-2">
            <Button look="primary" onClick={() => addPendingStart({ ...start, at: Date.now() })}>
              <Trans>Try again</Trans>
            </Button>
            <Button onClick={() => dropFirstStart(w.id)}>
              <Trans>Start another session</Trans>
            </Button>
          </div>
        )}
      </div>
    </section>
  );
}
