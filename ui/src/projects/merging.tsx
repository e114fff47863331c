import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { api, data, type Project, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, Segmented, TextArea, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { checkKeys } from "@/merge/check-runs";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

type Draft = Omit<Schemas["ProjectCheck"], "id"> & { id?: string; key: string };
type Strategy = Schemas["Merging"]["strategy"];

/** A project's checks, its merge rules, its merge queue and what conflicts. */
export default function ProjectMerging({ project: p, readOnly }: { project: Project; readOnly: boolean }) {
  return (
    <>
      <Settings key={JSON.stringify([p.checks, p.merging, p.keep_ignored])} project={p} readOnly={readOnly} />
      <Queue project={p} />
    </>
  );
}

function Settings({ project: p, readOnly }: { project: Project; readOnly: boolean }) {
  const team = useTeam();
  const client = useQueryClient();
  const count = useRef(0);
  const [checks, setChecks] = useState<Draft[]>(() => p.checks.map((c) => ({ ...c, key: c.id })));
  const [merging, setMerging] = useState(p.merging);
  const [ignored, setIgnored] = useState(p.keep_ignored.join("\n"));
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PATCH("/projects/{id}", {
          params: { path: { id: p.id } },
          body: {
            checks: checks.map(({ key: _, ...c }) => c),
            merging,
            keep_ignored: ignored
              .split("\n")
              .map((l) => l.trim())
              .filter(Boolean),
          },
        }),
      ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.projects(team.slug) });
      toast({ kind: "good", title: t`Saved` });
    },
  });
  const change = (key: string, with_: Partial<Draft>) =>
    setChecks((all) => all.map((c) => (c.key === key ? { ...c, ...with_ } : c)));
  const add = () => {
    count.current += 1;
    setChecks((all) => [
      ...all,
      {
        key: `new ${count.current}`,
        name: "",
        command: "",
        timeout_seconds: 600,
        required: true,
        after_turn: false,
        paths: [],
      },
    ]);
  };
  return (
    <section aria-labelledby="project-checks" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-checks" className="text-title font-semibold">
        <Trans>Checks and merging</Trans>
      </h2>
      <p className="text-fg2">
        <Trans>
          Checks are commands that verify the work. A check passes when it exits with 0. Checks run in the workspace's
          sandbox.
        </Trans>
      </p>
      <form
        className="flex flex-col gap-4"
        onSubmit={(e) => {
          e.preventDefault();
          save.mutate();
        }}
      >
        <fieldset disabled={readOnly} className="contents">
          {checks.map((c, i) => (
            <div
              key={c.key}
              role="group"
              aria-label={c.name || t`Check ${i + 1}`}
              className="flex flex-col gap-2 panel p-3"
            >
              <TextField
                label={t`Check name`}
                required
                value={c.name}
                placeholder={t`Tests`}
                onChange={(e) => change(c.key, { name: e.target.value })}
              />
              <TextArea
                label={t`Command`}
                required
                mono
                rows={2}
                value={c.command}
                placeholder="npm test"
                onChange={(e) => change(c.key, { command: e.target.value })}
              />
              <TextField
                label={t`Timeout in seconds`}
                type="number"
                min={1}
                max={21600}
                value={c.timeout_seconds}
                onChange={(e) => change(c.key, { timeout_seconds: Number(e.target.value) || 0 })}
              />
              <Check
                label={t`Required`}
                hint={t`The queue merges only work that passes.`}
                checked={c.required}
                onChange={(e) => change(c.key, { required: e.target.checked })}
              />
              <Check
                label={t`Run after each agent turn`}
                checked={c.after_turn}
                onChange={(e) => change(c.key, { after_turn: e.target.checked })}
              />
              {!readOnly && (
                <div>
                  <Button onClick={() => setChecks((all) => all.filter((o) => o.key !== c.key))}>
                    <Trans>Remove {c.name || t`this check`}</Trans>
                  </Button>
                </div>
              )}
            </div>
          ))}
          {!readOnly && (
            <div>
              <Button onClick={add}>
                <Trans>Add a check</Trans>
              </Button>
            </div>
          )}
          <div className="flex flex-col items-start gap-1.5">
            <span aria-hidden className="font-medium">
              <Trans>Merge rules</Trans>
            </span>
            <Segmented<Strategy>
              label={t`Merge rules`}
              value={merging.strategy}
              onChange={(strategy) => setMerging({ ...merging, strategy })}
              options={[
                ["merge", t`Merge`],
                ["squash", t`Squash`],
                ["rebase", t`Rebase`],
              ]}
            />
          </div>
          <div>
            <Check
              label={t`Merge through the queue only`}
              hint={t`Workspaces are merged one at a time, each checked together with earlier merges.`}
              checked={merging.queue}
              onChange={(e) => setMerging({ ...merging, queue: e.target.checked })}
            />
            <Check
              label={t`Require passed checks`}
              hint={t`Merging manually requires passed checks on exactly the files to be merged.`}
              checked={merging.require_checks}
              onChange={(e) => setMerging({ ...merging, require_checks: e.target.checked })}
            />
            <Check
              label={t`Require an approval`}
              hint={t`Someone must have approved exactly the files to be merged.`}
              checked={merging.require_approval}
              onChange={(e) => setMerging({ ...merging, require_approval: e.target.checked })}
            />
          </div>
          <TextArea
            label={t`Ignored files to include in snapshots`}
            mono
            rows={2}
            placeholder=".env.local"
            hint={t`Git-ignored files to save in the snapshot before files are changed or removed. One pattern per line.`}
            value={ignored}
            onChange={(e) => setIgnored(e.target.value)}
          />
        </fieldset>
        <FormError error={save.error} />
        {!readOnly && (
          <div>
            <Button type="submit" look="primary" busy={save.isPending && t`Saving`}>
              <Trans>Save checks and merging</Trans>
            </Button>
          </div>
        )}
      </form>
    </section>
  );
}

const STATES: Record<Schemas["QueueEntry"]["state"], string> = {
  waiting: "waits",
  checking: "checking",
  merging: "merging",
  merged: "merged",
  failed: t`not merged`,
  cancelled: "removed",
};

function Queue({ project: p }: { project: Project }) {
  const team = useTeam();
  const now = useNow();
  const queue = useQuery({
    queryKey: checkKeys.queue(p.id),
    queryFn: () => data(api.GET("/projects/{id}/merge-queue", { params: { path: { id: p.id } } })),
  });
  const overlaps = useQuery({
    queryKey: checkKeys.overlaps(p.id),
    queryFn: () => data(api.GET("/projects/{id}/overlaps", { params: { path: { id: p.id } } })),
  });
  const row = (e: Schemas["QueueEntry"]) => (
    <li key={e.id} className="py-1.5">
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: e.workspace_key }}
        search={{ tab: "merge" } as never}
        className="text-accent underline"
      >
        <span className="font-mono text-code">{e.workspace_key}</span> {e.workspace_name}
      </Link>{" "}
      <span className="text-fg2">
        <Trans>
          {STATES[e.state]}, {e.strategy} into {e.base}, added by {e.added_by_name}{" "}
          {ago(e.ended_at ?? e.created_at, now)}
        </Trans>
      </span>
      {e.reason && <span className="block text-meta break-words text-fg2">{e.reason}</span>}
    </li>
  );
  const order = overlaps.data?.order ?? [];
  return (
    <section aria-labelledby="project-queue" className="mt-8 flex max-w-form flex-col gap-2">
      <h2 id="project-queue" className="text-title font-semibold">
        <Trans>Merge queue</Trans>
      </h2>
      {queue.isPending && <Skeleton rows={2} label={t`Loading the queue`} />}
      {queue.error && (
        <Failure what={t`The queue could not be loaded.`} error={queue.error} retry={() => void queue.refetch()} />
      )}
      {queue.data?.items.length === 0 && (
        <p className="text-fg2">
          <Trans>The queue is empty.</Trans>
        </p>
      )}
      {queue.data && queue.data.items.length > 0 && (
        <ol className="divide-y divide-hairline">{queue.data.items.map(row)}</ol>
      )}
      {queue.data && queue.data.ended.length > 0 && (
        <details>
          <summary className="cursor-pointer text-fg2">
            <Trans>Recently finished</Trans>
          </summary>
          <ul className="divide-y divide-hairline">{queue.data.ended.map(row)}</ul>
        </details>
      )}
      {order.length > 0 && (
        <p className="text-fg2">
          <Trans>
            Some workspaces conflict. This merge order causes the fewest conflicts:{" "}
            {order.map((o) => (o.overlaps > 0 ? t`${o.key} (must resolve)` : o.key)).join(", ")}.
          </Trans>
        </p>
      )}
    </section>
  );
}
