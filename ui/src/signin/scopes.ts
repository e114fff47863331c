import { t } from "@lingui/core/macro";
import { within } from "@/format/text";
import type { Scope } from "./calls";

/** What a token bound to a scope may do, in the words of its checkbox. */
export const SCOPES: Record<Scope, { label: string; hint: string }> = {
  "workspaces:read": { label: t`Read`, hint: t`Teams, projects, workspaces, changes and files` },
  "workspaces:write": { label: t`Work`, hint: t`Read, create, change and merge workspaces, and run commands in them` },
  "sessions:attach": { label: t`Sessions`, hint: t`Read, watch, start and type in sessions, answer questions` },
  "billing:read": { label: t`Costs`, hint: t`See costs` },
  admin: { label: t`Everything`, hint: t`Everything you may do, including members, secrets and settings` },
};

export const ALL_SCOPES = Object.keys(SCOPES) as Scope[];

/** Scopes that a wider one holds within. */
const WITHIN: Partial<Record<Scope, readonly Scope[]>> = {
  "workspaces:write": ["workspaces:read"],
  "sessions:attach": ["workspaces:read"],
  admin: ["workspaces:read", "workspaces:write", "sessions:attach", "billing:read"],
};

/** Whether what is chosen allows a scope without its own tick. */
export function heldBy(chosen: readonly Scope[], scope: Scope): boolean {
  return chosen.some((c) => WITHIN[c]?.includes(scope));
}

/** The chosen scopes without those that others hold within. */
export const narrowed = (chosen: readonly Scope[]): Scope[] => chosen.filter((s) => !heldBy(chosen, s));

export function scopeWords(scopes: readonly Scope[] | null): string {
  if (!scopes || scopes.includes("admin")) return t`everything you may do`;
  return scopes.map((s) => (SCOPES[s] ? within(SCOPES[s].label) : s)).join(", ");
}
