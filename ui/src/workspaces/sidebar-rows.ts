import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";
import { matches, wordsOf } from "./filter";
import { GROUP_NAMES, GROUPS, type Grouped, type Standing, standing } from "./groups";

export type GroupBy = "state" | "project";
type Item = Grouped["items"][number];

/** A line of the sidebar. */
export type Row =
  | { kind: "group"; id: string; name: string; count: number; folded: boolean }
  | { kind: "workspace"; id: string; workspace: Workspace; standing: Standing; group: string; inside: boolean }
  | {
      kind: "run";
      id: string;
      runId: string;
      name: string;
      items: Item[];
      standing: Standing;
      group: string;
      open: boolean;
    };

export interface View {
  by: GroupBy;
  /** Ids of groups that are folded. */
  folded: readonly string[];
  /** Ids of runs whose attempts are unfolded. */
  open: readonly string[];
  pins: readonly string[];
  filter: string;
}

const URGENT: ReadonlySet<string> = new Set(["needs", "failed", "stuck"]);
export const PINNED = "pinned";

/** The name of what several attempts try: what their own names have in common. */
export function runName(names: readonly string[]): string {
  const stems = new Set(names.map((n) => (n.includes(" · ") ? n.slice(0, n.lastIndexOf(" · ")) : n)));
  return stems.size === 1 ? [...stems][0]! : (names[0] ?? "");
}

/** Who needs a person comes first, the longest waiting at the top; elsewhere the newest, which keeps rows from jumping about. */
export function compareItems(a: Item, b: Item): number {
  const rank = GROUPS.indexOf(a.standing.group) - GROUPS.indexOf(b.standing.group);
  if (rank) return rank;
  return URGENT.has(a.standing.group)
    ? (a.workspace.attention?.at ?? a.workspace.updated_at) - (b.workspace.attention?.at ?? b.workspace.updated_at)
    : b.workspace.created_at - a.workspace.created_at;
}

/** A workspace alone, or the attempts of one run with the most urgent first. */
interface Entry {
  lead: Item;
  items: Item[];
}

function entries(items: readonly Item[]): Entry[] {
  const runs = new Map<string, Entry>();
  const all: Entry[] = [];
  for (const item of items) {
    const run = item.workspace.run_id;
    const known = run ? runs.get(run) : undefined;
    if (known) {
      known.items.push(item);
      continue;
    }
    const entry = { lead: item, items: [item] };
    all.push(entry);
    if (run) runs.set(run, entry);
  }
  return all;
}

/** The lines of the sidebar, from top to bottom. A filter unfolds everything. */
export function sidebarRows(list: readonly Workspace[], view: View): Row[] {
  const words = wordsOf(view.filter);
  const items = list
    .filter((w) => matches(w, words))
    .map((workspace) => ({ workspace, standing: standing(workspace) }))
    .sort(compareItems);
  const at = new Map(view.pins.map((id, i) => [id, i]));
  const pinned = items
    .filter((i) => at.has(i.workspace.id))
    .sort((a, b) => at.get(a.workspace.id)! - at.get(b.workspace.id)!);
  const rest = items.filter((i) => !at.has(i.workspace.id));

  const rows: Row[] = [];
  const add = (id: string, name: string, group: Entry[]) => {
    if (group.length === 0) return;
    const folded = words.length === 0 && view.folded.includes(id);
    rows.push({ kind: "group", id, name, count: group.reduce((n, e) => n + e.items.length, 0), folded });
    if (folded) return;
    for (const e of group) {
      if (e.items.length === 1) {
        rows.push({ kind: "workspace", id: e.lead.workspace.id, ...e.lead, group: id, inside: false });
        continue;
      }
      const runId = e.lead.workspace.run_id!;
      const open = words.length > 0 || view.open.includes(runId);
      const name = runName(e.items.map((i) => i.workspace.name));
      rows.push({ kind: "run", id: runId, runId, name, items: e.items, standing: e.lead.standing, group: id, open });
      if (open)
        for (const i of e.items) rows.push({ kind: "workspace", id: i.workspace.id, ...i, group: id, inside: true });
    }
  };

  add(
    PINNED,
    t`Pinned`,
    pinned.map((i) => ({ lead: i, items: [i] })),
  );
  // Items are sorted by urgency, so an entry stands where its most urgent workspace does.
  const all = entries(rest);
  if (view.by === "state") {
    for (const g of GROUPS)
      add(
        g,
        GROUP_NAMES[g],
        all.filter((e) => e.lead.standing.group === g),
      );
    return rows;
  }
  const urgent = (e: Entry) => URGENT.has(e.lead.standing.group);
  add("needs", GROUP_NAMES.needs, all.filter(urgent));
  const projects = new Map<string, string>();
  for (const e of all) projects.set(e.lead.workspace.project_id, e.lead.workspace.project_name);
  for (const [id, name] of [...projects].sort((a, b) => a[1].localeCompare(b[1]) || (a[0] < b[0] ? -1 : 1)))
    add(
      id,
      name,
      all.filter((e) => !urgent(e) && e.lead.workspace.project_id === id),
    );
  return rows;
}

/** The workspaces in the order in which they are shown, for the keys that step through them; folded ones as well. */
export const sidebarOrder = (list: readonly Workspace[], view: View): Workspace[] =>
  sidebarRows(list, { ...view, filter: "", folded: [], open: list.flatMap((w) => w.run_id ?? []) }).flatMap((r) =>
    r.kind === "workspace" ? [r.workspace] : [],
  );
