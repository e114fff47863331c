import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";

export type Automation = Schemas["Automation"];
export type AutomationRun = Schemas["AutomationRun"];
export type Kind = Schemas["AutomationKind"];

export const automationsKey = (team: string) => ["team", team, "automations"] as const;

/** The events of git hosts, as the API calls them and as people do. */
export const EVENTS: ReadonlyMap<string, string> = new Map([
  ["issue_opened", t`Issue opened`],
  ["issue_labelled", t`Issue labelled`],
  ["issue_assigned", t`Issue assigned`],
  ["pull_request_opened", t`Pull request opened`],
  ["pull_request_labelled", t`Pull request labelled`],
  ["comment", t`Comment`],
  ["review", t`Review`],
  ["check_failed", t`Check failed`],
  ["push", t`Push`],
]);

/** When it runs. */
export function when({ trigger }: Automation): string {
  switch (trigger.kind) {
    case "schedule":
      return `${trigger.cron} · ${trigger.time_zone ?? "UTC"}`;
    case "git_host":
      return (trigger.events ?? []).map((e) => EVENTS.get(e) ?? e).join(", ");
    case "webhook":
      return t`Webhook`;
    default:
      return t`By hand`;
  }
}

/** The names in a text that people separate by commas. */
export const names = (text: string): string[] =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);
