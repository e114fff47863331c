import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";
import { Pick } from "./pick";

type Settings = Schemas["TaskSettings"];

const DIRECTIONS: readonly (readonly [Settings["direction"], string])[] = [
  ["off", t`Off`],
  ["both", t`Both ways`],
  ["in", t`Issues become tasks`],
  ["out", t`Tasks become issues`],
];

const keyOf = (project: string) => ["project", project, "task-settings"];
const time = (ms: number) => new Date(ms).toLocaleString(locale());

/** How a project's tasks and its forge's issues are kept in step. */
export default function IssueSettings({ project, readOnly }: { project: string; readOnly: boolean }) {
  const settings = useQuery({
    queryKey: keyOf(project),
    queryFn: () => data(api.GET("/projects/{id}/task-settings", { params: { path: { id: project } } })),
    refetchInterval: 10_000,
  });
  const s = settings.data;
  return (
    <section aria-labelledby="project-issues" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-issues" className="text-title font-semibold">
        <Trans>Tasks and issues</Trans>
      </h2>
      {settings.isPending ? (
        <Skeleton rows={2} label={t`Loading the settings of tasks`} />
      ) : !s ? (
        <Failure
          what={t`The settings of tasks could not be loaded.`}
          error={settings.error}
          retry={() => void settings.refetch()}
        />
      ) : (
        <>
          <Form key={[s.direction, s.label, s.all_tasks, s.file].join()} project={project} s={s} readOnly={readOnly} />
          {s.direction !== "off" && <State project={project} s={s} />}
        </>
      )}
    </section>
  );
}

function Form({ project, s, readOnly }: { project: string; s: Settings; readOnly: boolean }) {
  const [draft, setDraft] = useState({
    direction: s.direction,
    label: s.label,
    all_tasks: s.all_tasks,
    file: s.file,
  });
  const put = (change: Partial<typeof draft>) => setDraft({ ...draft, ...change });
  const save = useAction({
    act: () => data(api.PATCH("/projects/{id}/task-settings", { params: { path: { id: project } }, body: draft })),
    refresh: [keyOf(project)],
  });
  return (
    <form
      aria-label={t`Tasks and issues`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!readOnly) void save.run();
      }}
    >
      <p className="text-fg2">
        <Trans>
          Tasks and the issues of the project's Git host can be kept in step, with the git credential of the project or
          its team. Comments are not synced.
        </Trans>
      </p>
      <fieldset disabled={readOnly} className="flex flex-col gap-3">
        <Pick
          label={t`Issue sync`}
          value={draft.direction}
          onChange={(d) => put({ direction: d as Settings["direction"] })}
          options={DIRECTIONS}
        />
        {draft.direction !== "off" && (
          <TextField
            label={t`Label`}
            hint={t`Issues with this label become tasks.`}
            value={draft.label}
            error={fieldError(save.error, "label")}
            onChange={(e) => put({ label: e.target.value })}
          />
        )}
        {(draft.direction === "both" || draft.direction === "out") && (
          <Pick
            label={t`Tasks that become issues`}
            value={draft.all_tasks ? "all" : "label"}
            onChange={(v) => put({ all_tasks: v === "all" })}
            options={[
              ["label", t`Those with the label`],
              ["all", t`All`],
            ]}
          />
        )}
        <TextField
          label={t`File in the repository`}
          mono
          placeholder=".parawork/tasks.jsonl"
          hint={t`Where “parawork task export --file” writes the tasks in a workspace. Nothing is committed by itself.`}
          value={draft.file}
          error={fieldError(save.error, "file")}
          onChange={(e) => put({ file: e.target.value })}
        />
      </fieldset>
      <FormError error={save.error} />
      {!readOnly && (
        <Button type="submit" busy={save.busy} className="self-start">
          <Trans>Save</Trans>
        </Button>
      )}
    </form>
  );
}

/** How the sync goes, and what the forge does not have yet. */
function State({ project, s }: { project: string; s: Settings }) {
  const key = ["project", project, "issue-outbox"];
  const outbox = useQuery({
    queryKey: [...key, s.pending, s.failed],
    queryFn: () => data(api.GET("/projects/{id}/issue-outbox", { params: { path: { id: project } } })),
    enabled: s.pending + s.failed > 0,
  });
  const refresh = [keyOf(project), key];
  const now = useAction({
    act: () => data(api.POST("/projects/{id}/issue-sync", { params: { path: { id: project } } })),
    refresh,
    failed: t`The sync was not started.`,
  });
  const retry = useAction({
    act: (uid: string) => data(api.POST("/tasks/{id}/issue-retry", { params: { path: { id: uid } } })),
    refresh,
    failed: t`The change was not sent again.`,
  });
  return (
    <div className="flex flex-col gap-2">
      <p aria-live="polite" className="text-fg2">
        {s.issues} {s.issues === 1 ? t`task is an issue` : t`tasks are issues`}.{" "}
        {s.synced_at ? t`Issues were last read ${time(s.synced_at)}. ` : ""}
        {s.pending > 0 && t`${s.pending} to be sent. `}
        {s.failed > 0 && t`${s.failed} failed.`}
      </p>
      {s.error && (
        <p role="alert" className="break-words text-failed">
          {s.error}
          {s.next_at ? t` Next attempt: ${time(s.next_at)}.` : ""}
        </p>
      )}
      {outbox.data && outbox.data.items.length > 0 && s.pending + s.failed > 0 && (
        <ul aria-label={t`Changes to be sent`}>
          {outbox.data.items.map((c) => (
            <li key={c.uid} className="flex items-baseline gap-2 border-t border-hairline py-1">
              <span className="min-w-0 flex-1 break-words">
                {c.task} {c.title}
                <span className="block text-meta text-fg3">
                  {c.failed ? t`Failed` : t`Sent ${time(c.next_at)}`}
                  {c.attempts > 0 && t`, attempts: ${c.attempts}`}
                  {c.error && `. ${c.error}`}
                </span>
              </span>
              <Button look="quiet" aria-label={t`Retry ${c.task}`} onClick={() => void retry.run(c.uid)}>
                <Trans>Retry</Trans>
              </Button>
            </li>
          ))}
        </ul>
      )}
      <Button className="self-start" busy={now.busy} onClick={() => void now.run()}>
        <Trans>Sync now</Trans>
      </Button>
    </div>
  );
}
