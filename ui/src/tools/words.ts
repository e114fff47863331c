import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { count } from "@/format/text";
import type { MarkKind } from "@/kit/mark";

export type ToolGroup = Schemas["ToolGroup"];

/** What a group costs agents while it is on. */
export function groupCost(g: ToolGroup): string {
  const unlisted = g.tools.length - g.listed;
  if (g.listed === 0) return t`${plural(unlisted, { one: "# tool", other: "# tools" })}, not listed`;
  return [
    plural(g.listed, { one: "# tool listed", other: "# tools listed" }),
    unlisted > 0 && t`${count(unlisted)} not listed`,
    plural(g.context_tokens, { one: "about # token", other: "about # tokens" }),
  ]
    .filter(Boolean)
    .join(", ");
}

/** Counts what agents are shown while these groups are on. */
export function listedWith(groups: ToolGroup[], on: string[]): { listed: number; tokens: number } {
  const all = groups.filter((g) => on.includes(g.name));
  return {
    listed: all.reduce((n, g) => n + g.listed, 0),
    tokens: all.reduce((n, g) => n + g.context_tokens, 0),
  };
}

/** The groups that are on after one was switched. */
export const switched = (on: string[], name: string, to: boolean): string[] =>
  to ? [...on.filter((n) => n !== name), name] : on.filter((n) => n !== name);

export type ToolCall = Schemas["ToolCallRecord"];

/** How a call ended. */
export const OUTCOMES: Record<ToolCall["outcome"], { word: string; mark: MarkKind }> = {
  running: { word: t`Running`, mark: "running" },
  done: { word: t`Done`, mark: "done" },
  failed: { word: t`Failed`, mark: "failed" },
  refused: { word: t`Refused`, mark: "failed" },
  broken: { word: t`Broke`, mark: "failed" },
  cancelled: { word: t`Cancelled`, mark: "stopped" },
  timed_out: { word: t`Timed out`, mark: "failed" },
  unknown: { word: t`Unknown`, mark: "needs" },
};

/** Who called: an agent, or the program of a person. */
export const callerOf = (c: Pick<ToolCall, "agent" | "client">): string => c.agent || c.client || t`a person`;
