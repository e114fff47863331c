import type { Schemas } from "@/api/client";

type Item = Schemas["TimelineItem"];

/** A row of the timeline: a snapshot with the action that caused it, or an action without a snapshot. */
export interface Row {
  at: number;
  snapshot?: Schemas["WorkspaceSnapshot"];
  activity?: Schemas["Activity"];
}

/** A manually finished merge names no commit: its snapshot follows within this many ms. */
const SOON = 20_000;

/**
 * The rows of a timeline. A commit appears twice, as an action and as a snapshot: join them to one row.
 * Items are the newest first.
 */
export function joined(items: readonly Item[]): Row[] {
  const commits = items.flatMap((i) => (i.snapshot?.kind === "commit" ? [i.snapshot] : []));
  const told = new Map<string, Schemas["Activity"]>(); // by snapshot
  for (const { activity: a } of items) {
    if (a?.kind !== "commit" && a?.kind !== "update") continue;
    const named = [a.data.commit, a.data.head].filter(Boolean);
    const s = commits.findLast(
      (c) => !told.has(c.id) && (named.length > 0 ? named.includes(c.head) : c.at >= a.at && c.at - a.at < SOON),
    );
    if (s) told.set(s.id, a);
  }
  const taken = new Set([...told.values()].map((a) => a.id));
  return items.flatMap((i, at): Row[] => {
    if (i.activity) return taken.has(i.activity.id) ? [] : [{ at: i.at, activity: i.activity }];
    const s = i.snapshot;
    if (!s || (s.kind === "commit" && again(items, at, s) && !told.has(s.id) && !s.pinned)) return [];
    return [{ at: i.at, snapshot: s, activity: told.get(s.id) }];
  });
}

/** Whether a commit's snapshot adds nothing to the previous one: the same commit and files. */
function again(items: readonly Item[], at: number, s: Schemas["WorkspaceSnapshot"]): boolean {
  const before = items.slice(at + 1).find((i) => i.snapshot)?.snapshot;
  return before?.kind === "commit" && before.head === s.head && s.files === 0;
}
