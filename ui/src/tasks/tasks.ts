import { t as tr } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { allPages, api, data, type Schemas } from "@/api/client";
import type { MarkKind } from "@/kit/mark";

export type Task = Schemas["Task"];
export type Status = Schemas["TaskStatus"];

export const STATUSES: readonly (readonly [Status, string])[] = [
  ["open", tr`Open`],
  ["in_progress", tr`In progress`],
  ["blocked", tr`Blocked`],
  ["closed", tr`Closed`],
];
export const TYPES = ["task", "bug", "feature", "epic", "chore"] as const;
export const PRIORITIES = [tr`Critical`, tr`High`, tr`Medium`, tr`Low`, tr`Some day`] as const;

export const statusWord = (s: Status): string => STATUSES.find(([v]) => v === s)?.[1] ?? s;

export const tasksQuery = (team: string, closed: boolean) =>
  queryOptions({
    queryKey: ["team", team, "tasks", closed] as const,
    queryFn: () =>
      allPages((cursor) =>
        data(
          api.GET("/teams/{team}/tasks", {
            params: {
              path: { team },
              query: { limit: 200, cursor, status: closed ? "open,in_progress,blocked,closed" : undefined },
            },
          }),
        ),
      ),
  });

export const taskQuery = (team: string, uid: string) =>
  queryOptions({
    queryKey: ["team", team, "task", uid] as const,
    queryFn: () => data(api.GET("/tasks/{id}", { params: { path: { id: uid } } })),
  });

/** Where a task stands, by shape and word. */
export function taskMark(t: Task): { mark: MarkKind; word: string } {
  if (t.status === "closed") return { mark: "done", word: tr`Closed` };
  if (t.status === "in_progress") return { mark: "running", word: tr`In progress` };
  if (t.status === "blocked") return { mark: "stopped", word: tr`Blocked` };
  return t.blocked_by.length > 0
    ? { mark: "stopped", word: tr`Waits for ${t.blocked_by.join(", ")}` }
    : { mark: "idle", word: tr`Ready` };
}

export interface Filter {
  project: string;
  label: string;
  assignee: string;
  text: string;
}

export function matching(tasks: Task[], f: Filter): Task[] {
  const text = f.text.trim().toLowerCase();
  return tasks.filter(
    (t) =>
      (!f.project || t.project_id === f.project) &&
      (!f.label || t.labels.includes(f.label)) &&
      (!f.assignee || t.assignee === f.assignee) &&
      (!text || `${t.id} ${t.title} ${t.description}`.toLowerCase().includes(text)),
  );
}

/** Tasks that are related, in columns: each stands right of all that it waits for. */
export function layers(tasks: Task[]): Task[][] {
  const byId = new Map(tasks.map((t) => [t.id, t]));
  const related = new Set<string>();
  for (const t of tasks)
    for (const b of t.blocked_by)
      if (byId.has(b)) {
        related.add(t.id);
        related.add(b);
      }
  const depth = new Map<string, number>();
  let rest = tasks.filter((t) => related.has(t.id));
  for (let at = 0; rest.length > 0; at++) {
    const next = rest.filter((t) => t.blocked_by.every((b) => !related.has(b) || depth.has(b)));
    if (next.length === 0) break; // the server refuses cycles
    for (const t of next) depth.set(t.id, at);
    rest = rest.filter((t) => !depth.has(t.id));
  }
  const out: Task[][] = [];
  for (const t of tasks) {
    const d = depth.get(t.id);
    if (d === undefined) continue;
    out[d] ??= [];
    out[d].push(t);
  }
  return out;
}
