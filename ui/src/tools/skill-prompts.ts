import { t } from "@lingui/core/macro";
/** What an agent is sent to work by a skill. Every agent has the tool, or its twin in the shell. */
export function runPrompt(name: string): string {
  return t`Work by the skill ${name}. Read it first, with the tool skill_read or "parawork skill read ${name}".\n`;
}

/** What an agent is sent to make a skill of its conversation. */
export function savePrompt(about: string): string {
  return t`Save what we did in this conversation as a skill, with the tool skill_save or "parawork skill save".${
    about.trim() && t` It is about this: ${about.trim()}`
  }
Write for somebody who does it again elsewhere: the steps with their commands, how each is checked, and what went wrong at first. Leave out what was only about this case, and secrets.`;
}

/** What a person's own text of a skill begins with: what was asked in the conversation. */
export function outline(asked: readonly string[]): string {
  return asked.map((text, i) => `${i + 1}. ${text.trim().replace(/\n/g, "\n   ")}`).join("\n");
}
