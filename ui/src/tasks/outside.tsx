import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { api, BASE, data, type Schemas } from "@/api/client";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";

/** What a task has outside of itself: its issue on the forge, and its artifacts. */
export function Outside({ d, refresh, may }: { d: Schemas["TaskDetail"]; refresh: string[][]; may: boolean }) {
  const [artifact, setArtifact] = useState("");
  const path = { id: d.task.uid };
  const retry = useAction({
    act: () => data(api.POST("/tasks/{id}/issue-retry", { params: { path } })),
    refresh,
    failed: t`The change was not sent again.`,
  });
  const attach = useAction({
    act: () =>
      data(api.PUT("/tasks/{id}/artifacts/{artifact}", { params: { path: { ...path, artifact: artifact.trim() } } })),
    refresh,
    done: () => setArtifact(""),
  });
  const detach = useAction({
    act: (id: string) =>
      data(api.DELETE("/tasks/{id}/artifacts/{artifact}", { params: { path: { ...path, artifact: id } } })),
    refresh,
    failed: t`The artifact was not removed.`,
  });
  const { issue, issue_change: change } = d;
  return (
    <>
      {issue && (
        <p>
          <Trans>
            Issue{" "}
            <a href={issue.url} target="_blank" rel="noreferrer" className="text-accent hover:underline">
              {issue.repository}#{issue.number}
            </a>
            {issue.assignee && t` (assigned there to ${issue.assignee})`}, in step since{" "}
            {new Date(issue.synced_at).toLocaleString(locale())}
          </Trans>
        </p>
      )}
      {change && (
        <p className={change.error ? "break-words text-failed" : "text-fg2"}>
          {change.failed ? t`A change was not sent to the Git host. ` : t`A change will be sent to the Git host. `}
          {change.error} {change.attempts > 0 && t`Attempts: ${change.attempts}. `}
          {may && (
            <Button look="quiet" busy={retry.busy} onClick={() => void retry.run()}>
              <Trans>Retry</Trans>
            </Button>
          )}
        </p>
      )}
      {d.history.length > 0 && (
        <details>
          <summary className="cursor-pointer text-meta text-accent">
            <Trans>Texts replaced by the Git host's ({d.history.length})</Trans>
          </summary>
          {d.history.map((h) => (
            <p key={`${h.kind} ${h.at}`} className="whitespace-pre-wrap break-words">
              <span className="text-meta text-fg3">
                {h.kind === "lost_title" ? t`Title` : t`Description`}, {new Date(h.at).toLocaleString(locale())}
              </span>
              <br />
              {h.text}
            </p>
          ))}
        </details>
      )}
      {d.artifacts.length > 0 && (
        <section aria-label={t`Artifacts`}>
          <h3 className="font-medium">
            <Trans>Artifacts</Trans>
          </h3>
          <ul>
            {d.artifacts.map((a) => (
              <li key={a.id} className="flex items-baseline gap-2">
                <a
                  href={`${BASE}/artifacts/${encodeURIComponent(a.id)}/content`}
                  className="min-w-0 flex-1 truncate text-accent hover:underline"
                >
                  {a.name}
                  {a.version > 1 && t` (version ${a.version})`}
                </a>
                {may && (
                  <Button look="quiet" aria-label={t`Remove ${a.name}`} onClick={() => void detach.run(a.id)}>
                    <Trans>Remove</Trans>
                  </Button>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {may && (
        <div className="flex items-end gap-2">
          <TextField
            label={t`Attach artifact`}
            hint={t`Id of an artifact`}
            value={artifact}
            onChange={(e) => setArtifact(e.target.value)}
            fieldClass="flex-1"
          />
          <Button busy={attach.busy} disabled={!artifact.trim()} onClick={() => void attach.run()}>
            <Trans>Attach</Trans>
          </Button>
        </div>
      )}
      <FormError error={attach.error} />
    </>
  );
}
