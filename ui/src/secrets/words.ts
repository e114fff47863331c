import { t } from "@lingui/core/macro";
import type { Kind, Secret } from "./queries";

export const KINDS: Record<Kind, string> = { env: t`Variable`, file: t`File`, git: t`Git credential` };

/** What a secret is, in one line. */
export function about(s: Pick<Secret, "kind" | "target" | "username" | "in_sandbox" | "agents" | "last_four">): string {
  const words = [KINDS[s.kind]];
  if (s.kind === "file") words.push(s.target);
  if (s.kind === "git") {
    words.push(s.username ? t`${s.username} at ${s.target}` : s.target);
    words.push(s.in_sandbox ? t`also in sandboxes` : t`used only by the server`);
  }
  if (s.agents.length > 0) words.push(t`only for ${s.agents.join(", ")}`);
  if (s.last_four) words.push(t`ends in ${s.last_four}`);
  return words.join(" · ");
}

/** The agents a person wrote down, by commas or spaces. */
export function agentsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}
