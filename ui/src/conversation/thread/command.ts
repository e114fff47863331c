import { MODES } from "@/agents/own";
import type { Thread } from "./feed";

export interface Command {
  change?: { mode: Thread["mode"] } | { model: string };
  act?: "compact" | "clear" | "undo";
  /** What follows the command. */
  prompt: string;
}

/** The command that a text begins with: those that the terminal knows, too. Others are for the server. */
export function commandIn(text: string): Command | undefined {
  const found = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (!found) return undefined;
  const [, name, rest = ""] = found;
  const mode = MODES.find((m) => m.mode === name)?.mode;
  if (mode) return { change: { mode }, prompt: rest.trim() };
  if (name === "model" && rest && !/\s/.test(rest.trim())) return { change: { model: rest.trim() }, prompt: "" };
  if ((name === "compact" || name === "clear" || name === "undo") && rest.trim() === "")
    return { act: name, prompt: "" };
  return undefined;
}
