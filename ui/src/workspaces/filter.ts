import type { Workspace } from "@/api/client";

/** The words of a text that is searched for. */
export const wordsOf = (text: string): string[] => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Whether every word stands somewhere in what is shown of a workspace. */
export function matches(w: Workspace, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const all = [w.key, w.name, w.project_name, w.branch, w.owner.name, w.runner_name, w.attention?.text]
    .join("\n")
    .toLowerCase();
  return words.every((word) => all.includes(word));
}
