import { plural } from "@lingui/core/macro";
import { callOf } from "./call";
import type { Item } from "./feed";

export interface Row {
  item: Item;
  depth: number;
  /** Steps inside of it that are not shown as edits of their own. */
  steps: number;
  open: boolean;
  /** What the whole turn cost so far, at the usage of one of several answers. */
  turn?: { nano: number; estimated: boolean };
}

/** Diffs up to this many lines are shown unfolded. */
const SMALL_DIFF = 16;

const lines = (text: string): number => (text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0));

/** Whether an item is unfolded by default. */
export function opensByItself(item: Item): boolean {
  if (item.kind === "tool") return callOf(item)?.tool === "run_code";
  return item.kind === "edit" && item.diff !== "" && lines(item.diff) <= SMALL_DIFF;
}

/** Whether there is anything to unfold. */
export function unfolds(item: Item, steps: number): boolean {
  switch (item.kind) {
    case "tool":
      return steps > 0 || item.input !== "" || item.output !== "";
    case "edit":
      return item.diff !== "" || item.output !== "";
    case "thinking":
      return true;
    case "note":
      return steps > 0 || item.output !== "" || (item.topic === "output" && item.text.includes("\n"));
    default:
      return false;
  }
}

/**
 * The rows of a timeline, in which what was undone is one row, unless `whole` is set. Steps inside a call are indented below it when the call is expanded; edits always,
 * because they are the lasting result. `toggled` are the ids the user folded or unfolded.
 */
export function rowsOf(items: readonly Item[], toggled: ReadonlySet<string>, whole = false): Row[] {
  const known = new Set(items.map((i) => i.id));
  const inside = new Map<string, Item[]>();
  for (const item of items) {
    if (!item.parent || !known.has(item.parent) || item.parent === item.id) continue;
    const list = inside.get(item.parent);
    if (list) list.push(item);
    else inside.set(item.parent, [item]);
  }
  const rows: Row[] = [];
  const done = new Set<string>();
  const add = (item: Item, depth: number) => {
    if (done.has(item.id)) return;
    done.add(item.id);
    const below = inside.get(item.id) ?? [];
    const steps = below.filter((i) => i.kind !== "edit").length;
    const open = opensByItself(item) !== toggled.has(item.id);
    rows.push({ item, depth, steps, open });
    for (const child of below) if (open || child.kind === "edit") add(child, Math.min(depth + 1, 4));
  };
  for (const item of items) if (!item.parent || !known.has(item.parent) || item.parent === item.id) add(item, 0);
  return whole ? summed(rows) : folded(summed(rows), toggled);
}

/** Puts one row in place of those that follow each other and were undone. They stay below it while it is unfolded. */
function folded(rows: readonly Row[], toggled: ReadonlySet<string>): Row[] {
  const out: Row[] = [];
  for (let i = 0; i < rows.length; i++) {
    if (!rows[i]!.item.undone) {
      out.push(rows[i]!);
      continue;
    }
    const from = i;
    // What it cost stays spent, and stands with it.
    while (rows[i + 1]?.item.undone || rows[i + 1]?.item.kind === "usage") i++;
    const last = rows[i]!.item;
    const id = `${last.id}/undone`;
    const steps = rows.slice(from, i + 1).filter((r) => r.item.undone).length;
    const open = toggled.has(id);
    const text = plural(steps, { one: "# step undone", other: "# steps undone" });
    out.push({ item: { ...last, ...NOTE, id, text }, depth: 0, steps, open });
    if (open) out.push(...rows.slice(from, i + 1));
  }
  return out;
}

const NOTE = { kind: "note", topic: "", parent: "", output: "", undone: false } as const;

/** Notes at each usage what the turn has cost with it. */
function summed(rows: Row[]): Row[] {
  let nano = 0;
  let answers = 0;
  let estimated = false;
  let begun = false; // else the beginning of the turn is not shown
  for (const row of rows) {
    const { kind, usage } = row.item;
    if (kind === "prompt" && row.depth === 0) {
      nano = answers = 0;
      estimated = false;
      begun = true;
    }
    if (!begun || kind !== "usage" || usage?.cost_nano_usd === undefined) continue;
    nano += usage.cost_nano_usd;
    estimated ||= usage.estimated ?? false;
    if (++answers > 1) row.turn = { nano, estimated };
  }
  return rows;
}
