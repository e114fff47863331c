import type { Schemas } from "@/api/client";

export type Automation = Schemas["Automation"];
export type AutomationRun = Schemas["AutomationRun"];
export type Kind = Schemas["AutomationKind"];

export const automationsKey = (team: string) => ["team", team, "automations"] as const;

// Not for translation: what the API calls the events of git hosts.
export const EVENTS = [
  "issue_opened",
  "issue_labelled",
  "issue_assigned",
  "pull_request_opened",
  "pull_request_labelled",
  "comment",
  "review",
  "check_failed",
  "push",
] as const;

/** The names in a text that people separate by commas. */
export const names = (text: string): string[] =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);

/** A number of dollars that somebody typed, in nano-USD; undefined = it is none. */
export function nano(text: string): number | undefined {
  if (text.trim() === "") return 0;
  const dollars = Number(text.replace(",", "."));
  return Number.isFinite(dollars) && dollars >= 0 ? Math.round(dollars * 1e9) : undefined;
}
