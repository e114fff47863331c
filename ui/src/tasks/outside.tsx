import { useState } from "react";
import { api, BASE, data, type Schemas } from "@/api/client";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";

/** What a task has outside of itself: its issue on the forge, and its artifacts. */
export function Outside({ d, refresh, may }: { d: Schemas["TaskDetail"]; refresh: string[][]; may: boolean }) {
  const [artifact, setArtifact] = useState("");
  const path = { id: d.task.uid };
  const retry = useAction({
    act: () => data(api.POST("/tasks/{id}/issue-retry", { params: { path } })),
    refresh,
    failed: "The change was not sent again.",
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
    failed: "The artifact was not removed.",
  });
  const { issue, issue_change: change } = d;
  return (
    <>
      {issue && (
        <p>
          Issue{" "}
          <a href={issue.url} target="_blank" rel="noreferrer" className="text-accent hover:underline">
            {issue.repository}#{issue.number}
          </a>
          {issue.assignee && ` (assigned there to ${issue.assignee})`}, in step since{" "}
          {new Date(issue.synced_at).toLocaleString()}
        </p>
      )}
      {change && (
        <p className={change.error ? "break-words text-failed" : "text-fg2"}>
          {change.failed ? "A change was not sent to the Git host. " : "A change will be sent to the Git host. "}
          {change.error} {change.attempts > 0 && `Attempts: ${change.attempts}. `}
          {may && (
            <Button look="quiet" busy={retry.busy} onClick={() => void retry.run()}>
              Retry
            </Button>
          )}
        </p>
      )}
      {d.history.length > 0 && (
        <details>
          <summary className="cursor-pointer text-meta text-accent">
            Texts replaced by the Git host's ({d.history.length})
          </summary>
          {d.history.map((h) => (
            <p key={`${h.kind} ${h.at}`} className="whitespace-pre-wrap break-words">
              <span className="text-meta text-fg3">
                {h.kind === "lost_title" ? "Title" : "Description"}, {new Date(h.at).toLocaleString()}
              </span>
              <br />
              {h.text}
            </p>
          ))}
        </details>
      )}
      {d.artifacts.length > 0 && (
        <section aria-label="Artifacts">
          <h3 className="font-medium">Artifacts</h3>
          <ul>
            {d.artifacts.map((a) => (
              <li key={a.id} className="flex items-baseline gap-2">
                <a
                  href={`${BASE}/artifacts/${encodeURIComponent(a.id)}/content`}
                  className="min-w-0 flex-1 truncate text-accent hover:underline"
                >
                  {a.name}
                  {a.version > 1 && ` (version ${a.version})`}
                </a>
                {may && (
                  <Button look="quiet" aria-label={`Remove ${a.name}`} onClick={() => void detach.run(a.id)}>
                    Remove
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
            label="Attach artifact"
            hint="Id of an artifact"
            value={artifact}
            onChange={(e) => setArtifact(e.target.value)}
            fieldClass="flex-1"
          />
          <Button busy={attach.busy} disabled={!artifact.trim()} onClick={() => void attach.run()}>
            Attach
          </Button>
        </div>
      )}
      <FormError error={attach.error} />
    </>
  );
}
