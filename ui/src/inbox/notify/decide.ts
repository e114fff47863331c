import { t } from "@lingui/core/macro";
import type { InboxItem, Question } from "@/inbox/api";
import { isSnoozed } from "@/inbox/inbox";
import type { Rules, Show } from "./rules";

/** Minimum time between notifications of one workspace. */
export const PER_WORKSPACE_MS = 10_000;
/** Sounds are at least this far apart. */
export const BETWEEN_SOUNDS_MS = 4000;
/** More than this many at once become one notification. */
export const MOST_AT_ONCE = 3;

/** A notification. */
export interface Note {
  show: Show;
  sound: InboxItem["kind"] | undefined;
  /** Notifications with the same tag replace each other. */
  tag: string;
  title: string;
  body: string;
  /** What it leads to; undefined: the inbox. */
  item: InboxItem | undefined;
}

/** Identifies an occurrence: the same workspace may fail twice. */
export const nameOf = (i: InboxItem): string => `${i.kind}:${i.id}:${i.since}`;

/** Finds new items, each once. Items in the first list are not new. */
export class News {
  private seen: Set<string> | undefined;
  private readonly lastOf = new Map<string, number>();
  private lastSound = Number.NEGATIVE_INFINITY;

  /** Takes the current inbox and returns the new items. */
  take(list: readonly InboxItem[], now: number): InboxItem[] {
    const names = new Set(list.map(nameOf));
    const before = this.seen;
    // A snoozed item that returns is new again, so it does not count as seen while snoozed.
    this.seen = new Set([...names].filter((n) => !list.some((i) => nameOf(i) === n && isSnoozed(i, now))));
    if (!before) return [];
    return list.filter((i) => !isSnoozed(i, now) && !before.has(nameOf(i)));
  }

  /** Decides how to notify about new items by the rules, rate-limited. `looking` excludes items the user is looking at. */
  notes(fresh: readonly InboxItem[], rules: Rules, looking: (workspace: string) => boolean, now: number): Note[] {
    const told = fresh.filter((i) => {
      const rule = rules.kinds[i.kind];
      if (rule.show === "off" && !rule.sound) return false;
      if (looking(i.workspace_id)) return false;
      const last = this.lastOf.get(i.workspace_id);
      // A question is never held back: an agent waits for the answer.
      return i.kind === "question" || last === undefined || now - last >= PER_WORKSPACE_MS;
    });
    for (const i of told) this.lastOf.set(i.workspace_id, now);
    const notes = told.length > MOST_AT_ONCE ? [summary(told, rules)] : told.map((i) => noteOf(i, rules));
    return notes.map((n) => {
      if (!n.sound) return n;
      const quiet = now - this.lastSound < BETWEEN_SOUNDS_MS;
      if (!quiet) this.lastSound = now;
      return quiet ? { ...n, sound: undefined } : n;
    });
  }
}

function noteOf(i: InboxItem, rules: Rules): Note {
  const rule = rules.kinds[i.kind];
  return {
    show: rule.show,
    sound: rule.sound ? i.kind : undefined,
    tag: i.workspace_id,
    title: titleOf(i),
    body: i.workspace_name,
    item: i,
  };
}

/** Many at once, such as after a night: one notification that opens the inbox, as loud as the loudest of them. */
function summary(items: readonly InboxItem[], rules: Rules): Note {
  const shows = items.map((i) => rules.kinds[i.kind].show);
  return {
    show: shows.includes("system") ? "system" : shows.includes("toast") ? "toast" : "off",
    sound: items.find((i) => rules.kinds[i.kind].sound)?.kind,
    tag: "inbox",
    title: t`${items.length} items need you`,
    body: [...new Set(items.map((i) => i.workspace_name))].slice(0, 4).join(", "),
    item: undefined,
  };
}

const asks = (q: Question): string => (q.title.length > 140 ? `${q.title.slice(0, 139)}…` : q.title);

function titleOf(i: InboxItem): string {
  const who = i.agent_name || t`The workspace`;
  switch (i.kind) {
    case "question":
      return i.question ? t`${who} asks: ${asks(i.question)}` : t`${who} needs you`;
    case "failed":
      return (i.reason ? t`${who} failed: ${i.reason}` : t`${who} failed`).slice(0, 160);
    case "stuck":
      return t`${who} is stuck`;
    case "limited":
      return t`${who} has reached a limit`;
    case "review":
    case "budget":
      return i.reason.slice(0, 160);
    case "finished":
      return t`${who} has finished`;
  }
}
