import type { Schemas } from "@/api/client";
import { count, plural } from "@/format/text";

export type ToolGroup = Schemas["ToolGroup"];

/** What a group costs agents while it is on. */
export function groupCost(g: ToolGroup): string {
  const unlisted = g.tools.length - g.listed;
  const rest = unlisted > 0 ? `, ${count(unlisted)} not listed` : "";
  return g.listed === 0
    ? `${plural(unlisted, "tool")}, not listed`
    : `${plural(g.listed, "tool")} listed${rest}, about ${plural(g.context_tokens, "token")}`;
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
