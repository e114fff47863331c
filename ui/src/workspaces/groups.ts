import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";
import { limitText } from "@/format/time";
import type { MarkKind } from "@/kit/mark";

/** The groups of the sidebar in the order of who needs attention. */
export const GROUPS = ["needs", "failed", "stuck", "limited", "review", "running", "setup", "idle", "done"] as const;
export type Group = (typeof GROUPS)[number];

/** Those whose reason is shown: a question in its own words, or why something failed or waits. */
export const SAYS_WHY: ReadonlySet<Group> = new Set(["needs", "failed", "stuck", "limited", "setup"]);

export const GROUP_NAMES: Record<Group, string> = {
  needs: t`Needs you`,
  failed: t`Failed`,
  stuck: t`Stuck`,
  limited: t`Limit reached`,
  review: t`Ready to review`,
  running: t`Working`,
  setup: t`Setting up`,
  idle: t`Idle`,
  done: t`Done`,
};

export interface Standing {
  mark: MarkKind;
  word: string;
  group: Group;
  /** Why, in words; "" when the word says it all. */
  text: string;
}

/** Where a workspace stands, as a person should see it. */
export function standing(w: Workspace): Standing {
  const say = (mark: MarkKind, group: Group, word: string, text = ""): Standing => ({ mark, group, word, text });
  if (w.deleted_at) return say("stopped", "done", t`In the trash`);
  if (w.state === "archived") return say("stopped", "done", t`Archived`);
  if (w.state === "creating" || w.state === "setting_up") {
    const step = w.steps.find((s) => s.state === "running");
    return say("setup", "setup", t`Setting up`, step?.title ?? "");
  }
  if (w.state === "failed") return say("failed", "failed", t`Failed`, w.state_reason);
  const why = w.attention;
  switch (why?.reason) {
    case "waiting":
      return say("needs", "needs", t`Needs you`, why.text);
    case "stuck":
      return say("needs", "stuck", t`Stuck`, why.text);
    case "limited":
      return say("stopped", "limited", t`Limit reached`, limitText(why.until, Date.now()));
    case "conflict":
      return say("needs", "needs", t`Conflict`, why.text);
    case "failed":
      return say("failed", "failed", t`Failed`, why.text);
    case "finished":
      return w.merged_at && w.changes.files === 0
        ? say("merged", "done", t`Merged`)
        : say("review", "review", w.changes.files > 0 ? t`Ready to review` : t`Finished`, why.text);
  }
  switch (w.agents.state) {
    case "waiting":
      return say("needs", "needs", t`Needs you`);
    case "starting":
      return say("running", "running", t`Starting`);
    case "working":
      return say("running", "running", t`Working`);
    case "failed":
      return say("failed", "failed", t`Failed`);
    case "lost":
      return say("failed", "failed", t`Lost`);
  }
  if (w.state === "paused") return say("stopped", "idle", t`Paused`);
  if (w.merged_at) return say("merged", "done", t`Merged`);
  if (w.agents.state === "exited") return say("done", "done", t`Done`);
  return say("idle", "idle", w.agents.state === "none" ? t`No session yet` : t`Idle`);
}

export interface Grouped {
  group: Group;
  items: { workspace: Workspace; standing: Standing }[];
}

/** Workspaces by group. Who waits longest comes first; elsewhere the newest, which keeps rows from jumping about. */
export function grouped(list: readonly Workspace[]): Grouped[] {
  const by = new Map<Group, Grouped["items"]>();
  for (const workspace of list) {
    const s = standing(workspace);
    by.set(s.group, [...(by.get(s.group) ?? []), { workspace, standing: s }]);
  }
  return GROUPS.filter((g) => by.has(g)).map((group) => ({
    group,
    items: by
      .get(group)!
      .sort((a, b) =>
        group === "needs" || group === "failed" || group === "stuck"
          ? (a.workspace.attention?.at ?? a.workspace.updated_at) -
            (b.workspace.attention?.at ?? b.workspace.updated_at)
          : b.workspace.created_at - a.workspace.created_at,
      ),
  }));
}
