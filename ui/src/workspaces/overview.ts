import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";
import { livesIn } from "@/sandboxes/which";
import { matches, wordsOf } from "./filter";
import { GROUP_NAMES, type Group, type Grouped, standing } from "./groups";
import { type Column, FILTERS, type Filter, type OverviewSearch, sortOf } from "./search";
import { compareItems } from "./sidebar-rows";

export type Item = Grouped["items"][number];

export const valuesOf = (search: OverviewSearch, f: Filter): string[] => search[f]?.split(",").filter(Boolean) ?? [];

/** What a filter compares, of one workspace; "" matches nothing. */
export function filterValue({ workspace: w, standing: s }: Item, f: Filter): string {
  switch (f) {
    case "state":
      return s.group;
    case "project":
      return w.project_id;
    case "agent":
      return w.agents.agent ?? "";
    case "where":
      return livesIn(w);
    case "owner":
      return w.owner.id;
  }
}

/** The words for a value of a filter. */
export function labelOf({ workspace: w }: Item, f: Filter, value: string, placeName: (w: Workspace) => string): string {
  switch (f) {
    case "state":
      return GROUP_NAMES[value as Group];
    case "project":
      return w.project_name;
    case "agent":
      return w.agents.agent_name ?? value;
    case "where":
      return placeName(w);
    case "owner":
      return w.owner.name;
  }
}

export const costNano = (w: Workspace): number => (w.cost_nano ?? 0) + (w.tokens_cost_nano ?? 0);

/** When something happened last. */
export const activityOf = (w: Workspace): number => Math.max(w.updated_at, w.agents.at ?? 0, w.attention?.at ?? 0);

const CHECKS = ["failed", "stale", "running", "waiting", "passed", "none"];

const by: Record<Exclude<Column, "state">, (a: Workspace, b: Workspace) => number> = {
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  project: (a, b) => a.project_name.localeCompare(b.project_name),
  agent: (a, b) => (a.agents.agent_name ?? "~").localeCompare(b.agents.agent_name ?? "~"),
  where: (a, b) => (a.runner_name || a.executor).localeCompare(b.runner_name || b.executor),
  branch: (a, b) => a.branch.localeCompare(b.branch, undefined, { numeric: true }),
  changes: (a, b) => a.changes.additions + a.changes.deletions - (b.changes.additions + b.changes.deletions),
  cost: (a, b) => costNano(a) - costNano(b),
  checks: (a, b) => CHECKS.indexOf(a.checks?.state ?? "none") - CHECKS.indexOf(b.checks?.state ?? "none"),
  owner: (a, b) => a.owner.name.localeCompare(b.owner.name),
  activity: (a, b) => activityOf(a) - activityOf(b),
};

export const itemsOf = (list: readonly Workspace[]): Item[] =>
  list.map((workspace) => ({ workspace, standing: standing(workspace) }));

/** The workspaces that pass the filters, sorted; without a choice by who needs a person, as in the sidebar. */
export function overview(items: readonly Item[], search: OverviewSearch): Item[] {
  const words = wordsOf(search.q ?? "");
  const wanted = FILTERS.map((f) => [f, new Set(valuesOf(search, f))] as const).filter(([, set]) => set.size > 0);
  const found = items.filter(
    (i) => matches(i.workspace, words) && wanted.every(([f, set]) => set.has(filterValue(i, f))),
  );
  const sort = sortOf(search.sort);
  return found.sort((a, b) => {
    if (!sort) return compareItems(a, b);
    const order = sort.by === "state" ? compareItems(a, b) : by[sort.by](a.workspace, b.workspace);
    return (sort.down ? -order : order) || compareItems(a, b);
  });
}

/** The next choice when the head of a column is pressed: up, down, none. Figures begin with the highest. */
export function nextSort(now: string | undefined, column: Column): string | undefined {
  const first = column === "changes" || column === "cost" || column === "activity" ? `-${column}` : column;
  const second = first === column ? `-${column}` : column;
  return now === first ? second : now === second ? undefined : first;
}

/** The columns of the board, and the groups each of them holds. */
export const BOARD = [
  { id: "needs", name: t`Needs you`, groups: ["needs", "stuck"] },
  { id: "failed", name: t`Failed`, groups: ["failed"] },
  { id: "working", name: t`Working`, groups: ["running", "setup"] },
  { id: "review", name: t`Ready to review`, groups: ["review"] },
  { id: "idle", name: t`Idle`, groups: ["idle", "limited"] },
  { id: "done", name: t`Done`, groups: ["done"] },
] as const satisfies readonly { id: string; name: string; groups: readonly Group[] }[];
export type BoardColumn = (typeof BOARD)[number]["id"];

export const columnOf = (g: Group): BoardColumn => BOARD.find((c) => (c.groups as readonly Group[]).includes(g))!.id;

/** Why the agent of a workspace cannot be started now; "" if it can. */
export function cannotStart({ workspace: w, standing: s }: Item, may: boolean): string {
  if (!may) return t`You are not allowed to start agents in this team.`;
  if (w.state === "creating" || w.state === "setting_up")
    return t`It is being set up. Its agent starts when that is done.`;
  if (w.place_blocked) return w.place_warning || t`Nothing new can start in its place.`;
  if (s.group === "running") return t`Its agent is at work already.`;
  if (w.agents.state === "waiting") return t`Its agent waits for your answer. Answer the question, and it goes on.`;
  return "";
}

/** Why a card cannot be dropped on a column by hand: its state is what the agent and the work say. */
export const REFUSED: Record<Exclude<BoardColumn, "working">, string> = {
  needs: t`A workspace comes here by itself when its agent asks something.`,
  failed: t`A workspace comes here by itself when its agent or its setup fails.`,
  review: t`A workspace comes here by itself when its agent has finished.`,
  idle: t`A workspace comes here by itself when its agent has nothing to do. Stop the agent to end its work.`,
  done: t`A workspace comes here by itself when it is merged or its agent has ended. Archive it to put it away.`,
};

/** The rows from one to another, in the order shown: what Shift selects. */
export function between(order: readonly string[], from: string | undefined, to: string): string[] {
  const a = from === undefined ? -1 : order.indexOf(from);
  const b = order.indexOf(to);
  if (b < 0) return [];
  return a < 0 ? [to] : order.slice(Math.min(a, b), Math.max(a, b) + 1);
}
