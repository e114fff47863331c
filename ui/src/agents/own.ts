import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { isString, recall, remember } from "@/state/remember";

/** Parawork's own agent: its conversation is its view, and it takes a model and a mode. */
export const OWN = "parawork";

export type Mode = Schemas["Thread"]["mode"];

export const MODES: readonly { mode: Mode; name: string; hint: string }[] = [
  { mode: "build", name: t`Build`, hint: t`Changes files and runs commands.` },
  { mode: "plan", name: t`Plan`, hint: t`Looks around and writes a plan. Changes tasks only.` },
  { mode: "ask", name: t`Ask`, hint: t`Answers questions. Changes nothing.` },
  { mode: "review", name: t`Review`, hint: t`Looks for faults and runs the project's checks. Changes no files.` },
];

/** What a server at a base URL may speak. */
export const APIS: readonly { api: Schemas["AgentAccountAPI"]; name: string }[] = [
  { api: "", name: t`The usual one for the key` },
  { api: "messages", name: t`Messages, as Anthropic` },
  { api: "responses", name: t`Responses, as OpenAI` },
  { api: "chat", name: t`Chat Completions, as most other servers` },
];

export type Effort = "" | "low" | "medium" | "high";

/** How much the model thinks. */
export const EFFORTS: readonly { effort: Effort; name: string }[] = [
  { effort: "", name: t`The model's own` },
  { effort: "low", name: t`Low` },
  { effort: "medium", name: t`Medium` },
  { effort: "high", name: t`High` },
];

/** What a session of this agent is started with; "" is the default. */
export interface OwnStart {
  model: string;
  mode: Mode;
  effort: Effort;
}

export const OWN_START: OwnStart = { model: "", mode: "build", effort: "" };

/** The arguments of such a session. */
export function ownArgs({ model, mode, effort }: OwnStart): string[] {
  return [
    ...(model.trim() ? ["--model", model.trim()] : []),
    ...(mode === "build" ? [] : ["--mode", mode]),
    ...(effort ? ["--effort", effort] : []),
  ];
}

const RECENT = "own.models";
const isList = (v: unknown): v is string[] => Array.isArray(v) && v.every(isString);

/** Models that were chosen in this browser, the last one first. */
export const recentModels = (): string[] => recall(RECENT, isList) ?? [];

export function rememberModel(model: string): void {
  const name = model.trim();
  if (name) remember(RECENT, [name, ...recentModels().filter((m) => m !== name)].slice(0, 8));
}
