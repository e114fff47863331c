import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";

export type Prompt = Schemas["Prompt"];

export const promptsQuery = (workspaceId: string, sessionId: string) =>
  queryOptions({
    queryKey: keys.prompts(workspaceId, sessionId),
    queryFn: async () => (await data(api.GET("/sessions/{id}/prompts", { params: { path: { id: sessionId } } }))).items,
  });

/** What still waits, is being sent, or failed. */
export const openPrompts = (all: readonly Prompt[] | undefined): Prompt[] =>
  (all ?? []).filter((p) => p.state === "queued" || p.state === "sending" || p.state === "failed");

/** How the queue stands, in a few words; undefined when nothing waits. */
export function queueWords(open: readonly Prompt[]): { text: string; needs: boolean } | undefined {
  const failed = open.filter((p) => p.state === "failed").length;
  const queued = open.filter((p) => p.state === "queued");
  if (failed > 0) return { text: t`${failed} failed`, needs: true };
  if (queued[0]?.held) return { text: t`${queued.length} held`, needs: true };
  if (queued.length > 0) return { text: t`${queued.length} queued`, needs: false };
  return open.length > 0 ? { text: t`Sending`, needs: false } : undefined;
}

/** The place among the queued prompts after a move, or undefined when it would stay where it is. */
export function movedTo(open: readonly Prompt[], id: string, by: number): number | undefined {
  const queued = open.filter((p) => p.state === "queued");
  const at = queued.findIndex((p) => p.id === id);
  const to = Math.max(0, Math.min(queued.length - 1, at + by));
  return at < 0 || to === at ? undefined : to;
}

/** The prompts with one moved among the queued ones: what the list looks like before the server answers. */
export function reordered(all: readonly Prompt[], id: string, to: number): Prompt[] {
  const queued = all.filter((p) => p.state === "queued");
  const moved = queued.find((p) => p.id === id);
  if (!moved) return [...all];
  const rest = queued.filter((p) => p.id !== id);
  rest.splice(to, 0, moved);
  return all.map((p) => (p.state === "queued" ? rest.shift()! : p));
}

/** All prompts of a session, for another one to repeat. */
export function toldTo(session: { prompt: string }, all: readonly Prompt[] | undefined): string {
  return [
    session.prompt,
    ...(all ?? []).filter((p) => p.state === "sent" && p.text !== session.prompt).map((p) => p.text),
  ]
    .filter((t) => t.trim() !== "")
    .join("\n\n");
}
