import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";

export type Grace = Schemas["Grace"];

/** The limit a terminal's workspace reached. */
export interface TerminalGrace {
  scope: string;
  state: string;
  reason: string;
  /** By this browser's clock. */
  endsAt: number;
}

/** Reads the grace of a state frame; undefined when there is none. The frame carries the remaining time, because clocks differ. */
export function parseGrace(v: unknown, now: number): TerminalGrace | undefined {
  if (typeof v !== "object" || v === null) return undefined;
  const o = v as Record<string, unknown>;
  if (typeof o.state !== "string" || typeof o.scope !== "string") return undefined;
  return {
    scope: o.scope,
    state: o.state,
    reason: typeof o.reason === "string" ? o.reason : "",
    endsAt: now + (typeof o.left_ms === "number" ? o.left_ms : 0),
  };
}

/** What is left, as a clock shows it: "4:07"; never below "0:00". */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const pad = (n: number) => String(n).padStart(2, "0");
  const h = Math.floor(s / 3600);
  const min = Math.floor((s % 3600) / 60);
  return h > 0 ? `${h}:${pad(min)}:${pad(s % 60)}` : `${min}:${pad(s % 60)}`;
}

/** Describes what happens to the sandbox; the remaining time is shown next to it. */
export function fate(state: string): string {
  switch (state) {
    case "counting":
      return t`The sandbox is paused in`;
    case "stopping":
      return t`Files are synced to the server, then the sandbox is paused.`;
    case "ended":
      return t`The sandbox was ended. Its files are on the server.`;
    default:
      return t`The sandbox is paused with everything in it.`;
  }
}

/** Describes how the work can continue, as a sentence. */
export function goesOn(scope: string, state: string): string {
  if (state === "ended") return t`Resume the session once the limit allows it.`;
  switch (scope) {
    case "session_minutes":
      return t`Wake it to continue.`;
    case "kill_switch":
      return t`It continues automatically when an operator allows it.`;
    case "past_due":
      return t`It continues automatically when the team has paid.`;
    default:
      return t`It continues automatically when the limit is raised or the month ends.`;
  }
}

/** The page where the limit can be raised, and its label; undefined if there is none. */
export function raise(scope: string): { section: string; name: string; else: string } | undefined {
  switch (scope) {
    case "team_budget":
    case "team_overage":
      return { section: "budget", name: t`Raise the budget`, else: t`An admin of the team can raise the budget.` };
    case "user_hours":
      return { section: "quotas", name: t`Raise the quota`, else: t`An admin of the team can raise the quota.` };
    case "past_due":
      return { section: "billing", name: t`Pay`, else: t`An admin of the team can pay.` };
    default:
      return undefined;
  }
}
