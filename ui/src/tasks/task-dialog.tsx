import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Project, type Schemas } from "@/api/client";
import { agentsQuery, workspacesQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { TextArea, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { Outside } from "./outside";
import { Pick } from "./pick";
import { PRIORITIES, STATUSES, type Status, type Task, TYPES, taskQuery } from "./tasks";

interface Props {
  /** Nothing for a new one. */
  task?: Task;
  projects: Project[];
  onClose: () => void;
}

const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** One task: its fields, what it depends on, and the way to work on it. */
export default function TaskDialog({ task, projects, onClose }: Props) {
  const team = useTeam();
  const may = team.can("workspace.edit");
  const [draft, setDraft] = useState({
    project: task?.project_id ?? projects[0]?.id ?? "",
    title: task?.title ?? "",
    description: task?.description ?? "",
    type: task?.type ?? "task",
    priority: task?.priority ?? 2,
    status: task?.status ?? ("open" as Status),
    reason: task?.reason ?? "",
    labels: task?.labels.join(", ") ?? "",
    parent: task?.parent ?? "",
    blockedBy: "",
  });
  const put = (change: Partial<typeof draft>) => setDraft({ ...draft, ...change });
  const refresh = [
    ["team", team.slug, "tasks"],
    ["team", team.slug, "task"],
  ];
  const save = useAction({
    act: async () => {
      const labels = draft.labels
        .split(",")
        .map((l) => l.trim())
        .filter(Boolean);
      const { title, description, type, priority, parent } = draft;
      if (!task) {
        const body = {
          project_id: draft.project,
          title,
          description,
          type,
          priority,
          labels,
          parent,
          blocked_by: words(draft.blockedBy),
        };
        await data(api.POST("/teams/{team}/tasks", { params: { path: { team: team.slug } }, body }));
        return;
      }
      const path = { id: task.uid };
      if (draft.status === "closed" && task.status !== "closed") {
        const closed = await data(api.POST("/tasks/{id}/close", { params: { path }, body: { reason: draft.reason } }));
        const ready = closed.now_ready.map((t) => t.id).join(", ");
        if (closed.warning || ready)
          toast({
            kind: "good",
            title: t`${task.id} is closed. ${closed.warning}${ready ? t` Ready now: ${ready}.` : ""}`,
          });
      }
      await data(
        api.PATCH("/tasks/{id}", {
          params: { path },
          body: { title, description, type, priority, labels, parent, reason: draft.reason, status: draft.status },
        }),
      );
    },
    refresh,
    done: onClose,
  });
  return (
    <Dialog open onClose={onClose} title={task ? `${task.id} ${task.title}` : t`New task`} wide>
      <DialogBody className="space-y-3">
        {!task && projects.length > 1 && (
          <Pick
            label={t`Project`}
            value={draft.project}
            onChange={(project) => put({ project })}
            options={projects.map((p) => [p.id, p.name])}
          />
        )}
        <TextField
          label={t`Title`}
          value={draft.title}
          maxLength={500}
          disabled={!may}
          onChange={(e) => put({ title: e.target.value })}
        />
        <TextArea
          label={t`Description`}
          rows={5}
          value={draft.description}
          disabled={!may}
          onChange={(e) => put({ description: e.target.value })}
        />
        <div className="grid gap-3 sm:grid-cols-3">
          <Pick
            label={t`Type`}
            value={draft.type}
            onChange={(type) => put({ type: type as Task["type"] })}
            options={TYPES.map((t) => [t, t])}
          />
          <Pick
            label={t`Priority`}
            value={String(draft.priority)}
            onChange={(p) => put({ priority: Number(p) })}
            options={PRIORITIES.map((p, i) => [String(i), p])}
          />
          {task && (
            <Pick
              label={t`Status`}
              value={draft.status}
              onChange={(s) => put({ status: s as Status })}
              options={STATUSES}
            />
          )}
        </div>
        {task && draft.status === "closed" && (
          <TextField
            label={t`Reason`}
            value={draft.reason}
            maxLength={2000}
            onChange={(e) => put({ reason: e.target.value })}
          />
        )}
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label={t`Labels`}
            hint={t`Separated by commas`}
            value={draft.labels}
            disabled={!may}
            onChange={(e) => put({ labels: e.target.value })}
          />
          <TextField
            label={t`Part of`}
            hint={t`Id of a task`}
            value={draft.parent}
            disabled={!may}
            onChange={(e) => put({ parent: e.target.value })}
          />
        </div>
        {task ? (
          <Related task={task} refresh={refresh} may={may} />
        ) : (
          <TextField
            label={t`Waits for`}
            hint={t`Ids of tasks, separated by commas`}
            value={draft.blockedBy}
            onChange={(e) => put({ blockedBy: e.target.value })}
          />
        )}
        {task && may && task.status !== "closed" && <Work task={task} refresh={refresh} />}
        <FormError error={save.error} />
      </DialogBody>
      {may && (
        <DialogFoot>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button
            look="primary"
            busy={save.busy}
            disabled={!draft.title.trim() || !draft.project}
            onClick={() => void save.run()}
          >
            {task ? t`Save` : t`Create`}
          </Button>
        </DialogFoot>
      )}
    </Dialog>
  );
}

function Related({ task, refresh, may }: { task: Task; refresh: string[][]; may: boolean }) {
  const team = useTeam();
  const detail = useQuery(taskQuery(team.slug, task.uid));
  const [other, setOther] = useState("");
  const path = { id: task.uid };
  const add = useAction({
    act: () =>
      data(
        api.POST("/tasks/{id}/dependencies", { params: { path }, body: { depends_on: other.trim(), type: "blocks" } }),
      ),
    refresh,
    done: () => setOther(""),
  });
  const remove = useAction({
    act: (id: string) =>
      data(api.DELETE("/tasks/{id}/dependencies/{other}", { params: { path: { ...path, other: id } } })),
    refresh,
    failed: t`The dependency was not removed.`,
  });
  const d = detail.data;
  return (
    <div className="space-y-2">
      <Briefs title={t`Depends on`} list={d?.dependencies} remove={may ? (id) => void remove.run(id) : undefined} />
      <Briefs title={t`Needed by`} list={d?.dependents} />
      <Briefs title={t`Children`} list={d?.children} />
      {d && <Outside d={d} refresh={refresh} may={may} />}
      {task.files.length > 0 && (
        <details>
          <summary className="cursor-pointer text-meta text-accent">
            <Trans>Files ({task.files.length})</Trans>
          </summary>
          <p className="font-mono text-code break-words">{task.files.join(", ")}</p>
        </details>
      )}
      {may && (
        <div className="flex items-end gap-2">
          <TextField
            label={t`Also waits for`}
            hint={t`Id of a task`}
            value={other}
            onChange={(e) => setOther(e.target.value)}
            fieldClass="flex-1"
          />
          <Button busy={add.busy} disabled={!other.trim()} onClick={() => void add.run()}>
            <Trans>Add</Trans>
          </Button>
        </div>
      )}
      <FormError error={add.error} />
    </div>
  );
}

function Briefs({
  title,
  list,
  remove,
}: {
  title: string;
  list?: Schemas["TaskBrief"][];
  remove?: (id: string) => void;
}) {
  if (!list || list.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3 className="font-medium">{title}</h3>
      <ul>
        {list.map((b) => (
          <li key={b.id} className="flex items-baseline gap-2">
            <span className="min-w-0 flex-1 truncate">
              {b.id} {b.title}
              <span className="text-meta text-fg3">
                {" "}
                {b.status.replace("_", " ")}
                {b.type && b.type !== "blocks" && `, ${b.type}`}
              </span>
            </span>
            {remove && (
              <Button look="quiet" aria-label={t`Remove ${b.id}`} onClick={() => remove(b.id)}>
                <Trans>Remove</Trans>
              </Button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Creates a workspace for the task and starts an agent in it. */
function Work({ task, refresh }: { task: Task; refresh: string[][] }) {
  const team = useTeam();
  const navigate = useNavigate();
  const agents = useQuery(agentsQuery(team.slug));
  const workspaces = useQuery(workspacesQuery(team.slug));
  const [agent, setAgent] = useState("");
  const here = workspaces.data?.find((w) => w.id === task.workspace_id);
  const begin = useAction({
    act: () => data(api.POST("/tasks/{id}/work", { params: { path: { id: task.uid } }, body: agent ? { agent } : {} })),
    refresh: [...refresh, ["team", team.slug, "workspaces"]],
    done: async (begun) => {
      const { data: list } = await workspaces.refetch();
      const w = list?.find((o) => o.id === begun.workspace_id);
      if (w) await navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key } });
    },
  });
  if (task.workspace_id)
    return here ? (
      <p>
        <Trans>
          Worked on in{" "}
          <Link to="/$team/w/$key" params={{ team: team.slug, key: here.key }} className="text-accent hover:underline">
            {here.key} {here.name}
          </Link>
        </Trans>
      </p>
    ) : null;
  const usable = (agents.data ?? []).filter((a) => a.enabled && a.agent !== "shell" && a.agent !== "command");
  return (
    <div className="space-y-2 border-t border-hairline pt-3">
      <div className="flex items-end gap-2">
        <div className="flex-1">
          <Pick
            label={t`Agent`}
            value={agent}
            onChange={setAgent}
            options={[["", t`None yet`], ...usable.map((a) => [a.agent, a.name] as const)]}
          />
        </div>
        <Button busy={begin.busy} onClick={() => void begin.run()}>
          <Trans>Work on it</Trans>
        </Button>
      </div>
      <p className="text-meta text-fg3">
        <Trans>Creates a workspace named after the task. Its merge closes the task.</Trans>
      </p>
      <FormError error={begin.error} />
    </div>
  );
}
