import type { Schemas } from "@/api/client";
import { isString, recall, remember } from "@/state/remember";

/** Parawork's own agent: its conversation is its view, and it takes a model and a mode. */
export const OWN = "parawork";

export type Mode = Schemas["Thread"]["mode"];

export const MODES: readonly { mode: Mode; name: string; hint: string }[] = [
  { mode: "build", name: "Build", hint: "Changes files and runs commands." },
  { mode: "plan", name: "Plan", hint: "Looks around and writes a plan. Changes tasks only." },
  { mode: "ask", name: "Ask", hint: "Answers questions. Changes nothing." },
  { mode: "review", name: "Review", hint: "Looks for faults and runs the project's checks. Changes no files." },
];

/** What a server at a base URL may speak. */
export const APIS: readonly { api: Schemas["AgentAccountAPI"]; name: string }[] = [
  { api: "", name: "The usual one for the key" },
  { api: "messages", name: "Messages, as Anthropic" },
  { api: "responses", name: "Responses, as OpenAI" },
  { api: "chat", name: "Chat Completions, as most other servers" },
];

/** The arguments of a session with a model and a mode; "" is the default. */
export function ownArgs(model: string, mode: Mode): string[] {
  return [...(model.trim() ? ["--model", model.trim()] : []), ...(mode === "build" ? [] : ["--mode", mode])];
}

const RECENT = "own.models";
const isList = (v: unknown): v is string[] => Array.isArray(v) && v.every(isString);

/** Models that were chosen in this browser, the last one first. */
export const recentModels = (): string[] => recall(RECENT, isList) ?? [];

export function rememberModel(model: string): void {
  const name = model.trim();
  if (name) remember(RECENT, [name, ...recentModels().filter((m) => m !== name)].slice(0, 8));
}
