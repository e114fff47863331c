import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { api } from "@/api/client";
import { projectsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, inputClass, Segmented } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Page } from "@/kit/page";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { type Filter, matching, PRIORITIES, STATUSES, type Status, type Task, taskMark, tasksQuery } from "./tasks";

const TaskDialog = lazy(() => import("./task-dialog"));
const Graph = lazy(() => import("./graph"));

/** The team's planned work: as a list, as a board, or as what waits for what. */
export function TasksScreen() {
  useTitle(tr`Tasks`);
  const team = useTeam();
  const [view, setView] = useState<"list" | "board" | "graph">("list");
  const [closed, setClosed] = useState(false);
  const [filter, setFilter] = useState<Filter>({ project: "", label: "", assignee: "", text: "" });
  const [shown, setShown] = useState<string>(); // uid, or "" for a new one
  const list = useQuery(tasksQuery(team.slug, closed || view === "board"));
  const projects = useQuery(projectsQuery(team.slug));
  const may = team.can("workspace.edit");
  const all = list.data ?? [];
  const tasks = matching(all, filter);
  const open = (t: Task) => setShown(t.uid);
  const labels = [...new Set(all.flatMap((t) => t.labels))].sort();
  const people = [...new Map(all.filter((t) => t.assignee).map((t) => [t.assignee, t.assignee_name]))];
  return (
    <Page
      title={tr`Tasks`}
      actions={
        may &&
        projects.data &&
        projects.data.length > 0 && (
          <Button look="primary" onClick={() => setShown("")}>
            <Trans>New task</Trans>
          </Button>
        )
      }
    >
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <Segmented
          label={tr`View`}
          value={view}
          onChange={setView}
          options={[
            ["list", tr`List`],
            ["board", tr`Board`],
            ["graph", tr`Graph`],
          ]}
        />
        <input
          type="search"
          aria-label={tr`Search tasks`}
          placeholder={tr`Search`}
          className={`${inputClass} max-w-48`}
          value={filter.text}
          onChange={(e) => setFilter({ ...filter, text: e.target.value })}
        />
        <Narrow
          label={tr`Project`}
          value={filter.project}
          onChange={(project) => setFilter({ ...filter, project })}
          options={(projects.data ?? []).map((p) => [p.id, p.name])}
        />
        <Narrow
          label={tr`Label`}
          value={filter.label}
          onChange={(label) => setFilter({ ...filter, label })}
          options={labels.map((l) => [l, l])}
        />
        <Narrow
          label={tr`Assignee`}
          value={filter.assignee}
          onChange={(assignee) => setFilter({ ...filter, assignee })}
          options={people}
        />
        {view === "list" && (
          <Check label={tr`Show closed`} checked={closed} onChange={(e) => setClosed(e.target.checked)} />
        )}
      </div>
      {list.isPending ? (
        <Skeleton rows={6} label={tr`Loading tasks`} />
      ) : list.isError && !list.data ? (
        <Failure what={tr`The tasks could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : tasks.length === 0 ? (
        <Empty title={all.length === 0 ? tr`No tasks` : tr`No task matches`}>
          {all.length === 0 && tr`People and agents plan work here: an agent adds one with “parawork task create”.`}
        </Empty>
      ) : view === "list" ? (
        <List tasks={tasks} open={open} />
      ) : view === "board" ? (
        <Board tasks={tasks} open={open} may={may} />
      ) : (
        <Suspense fallback={<Skeleton />}>
          <Graph tasks={tasks} open={open} />
        </Suspense>
      )}
      {shown !== undefined && (
        <Suspense>
          <TaskDialog
            key={shown}
            task={all.find((t) => t.uid === shown)}
            projects={projects.data ?? []}
            onClose={() => setShown(undefined)}
          />
        </Suspense>
      )}
    </Page>
  );
}

function Narrow({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (v: string) => void;
  options: (readonly [string, string])[];
}) {
  if (options.length < 2 && !value) return null;
  return (
    <select
      aria-label={label}
      className={`${inputClass} w-auto max-w-44`}
      value={value}
      onChange={(e) => onChange(e.target.value)}
    >
      <option value="">
        <Trans>{label}: all</Trans>
      </option>
      {options.map(([v, word]) => (
        <option key={v} value={v}>
          {word}
        </option>
      ))}
    </select>
  );
}

function List({ tasks, open }: { tasks: Task[]; open: (t: Task) => void }) {
  return (
    <ul className="divide-y divide-hairline border-y border-hairline">
      {tasks.map((t) => {
        const s = taskMark(t);
        return (
          <li key={t.uid}>
            <button
              type="button"
              onClick={() => open(t)}
              className="flex w-full flex-wrap items-baseline gap-x-3 px-1 py-1.5 text-left -outline-offset-2 hover:bg-bg2"
            >
              <span className="w-16 text-meta text-fg3 tabular-nums">{t.id}</span>
              <span className="min-w-0 flex-1 basis-48 truncate">
                {t.title}
                <Labels task={t} />
              </span>
              <span className="text-meta text-fg3">{t.assignee_name}</span>
              <span className="text-meta text-fg3">
                {PRIORITIES[t.priority]} {t.type}
              </span>
              <Mark kind={s.mark} word={s.word} />
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function Labels({ task }: { task: Task }) {
  return task.labels.map((l) => (
    <span key={l} className="ml-1.5 rounded-sm bg-bg3 px-1 text-meta text-fg2">
      {l}
    </span>
  ));
}

/** A column for each status. Cards move by dragging, or by their own choice of a status. */
function Board({ tasks, open, may }: { tasks: Task[]; open: (t: Task) => void; may: boolean }) {
  const team = useTeam();
  const move = useAction({
    act: async ({ task, to }: { task: Task; to: Status }) => {
      const params = { path: { id: task.uid } };
      if (to === "closed") await api.POST("/tasks/{id}/close", { params, body: {} });
      else await api.PATCH("/tasks/{id}", { params, body: { status: to } });
    },
    refresh: [["team", team.slug, "tasks"]],
    failed: ({ task }) => tr`${task.id} was not moved.`,
  });
  return (
    <div className="grid gap-3 md:grid-cols-4">
      {STATUSES.map(([status, word]) => {
        const column = tasks.filter((t) => t.status === status);
        return (
          <section
            key={status}
            aria-label={word}
            className="min-w-0 rounded-md bg-bg2 p-2"
            onDragOver={(e) => e.preventDefault()}
            onDrop={(e) => {
              e.preventDefault();
              const task = tasks.find((t) => t.uid === e.dataTransfer.getData("text/plain"));
              if (task && may && task.status !== status) void move.run({ task, to: status });
            }}
          >
            <h2 className="mb-2 text-meta text-fg3">
              {word} <span className="tabular-nums">{column.length}</span>
            </h2>
            <ul className="space-y-2">
              {column.slice(0, 100).map((t) => (
                <li
                  key={t.uid}
                  draggable={may}
                  onDragStart={(e) => e.dataTransfer.setData("text/plain", t.uid)}
                  className="panel p-2"
                >
                  <button type="button" className="block w-full text-left hover:underline" onClick={() => open(t)}>
                    <span className="text-meta text-fg3">{t.id}</span> {t.title}
                  </button>
                  <span className="block truncate text-meta text-fg3">
                    {PRIORITIES[t.priority]} {t.assignee_name}
                  </span>
                  <Labels task={t} />
                  {may && (
                    <select
                      aria-label={tr`Status of ${t.id}`}
                      className="mt-1 w-full bg-bg1 text-meta text-fg2"
                      value={t.status}
                      onChange={(e) => void move.run({ task: t, to: e.target.value as Status })}
                    >
                      {STATUSES.map(([v, name]) => (
                        <option key={v} value={v}>
                          {name}
                        </option>
                      ))}
                    </select>
                  )}
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </div>
  );
}
