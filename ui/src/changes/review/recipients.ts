import { t } from "@lingui/core/macro";
import { api, data, type Session } from "@/api/client";
import { isShell } from "@/sessions/sessions";
import type { Review } from "./data";

/** Working agents first, then the one that became idle last, the most likely recipient. */
export const byWork = (list: readonly Session[]): Session[] =>
  [...list].sort((a, b) => Number(b.state === "working") - Number(a.state === "working") || b.state_at - a.state_at);

/** Whether a session can read a review. */
export const reads = (s: Session): boolean => !isShell(s) && s.agent !== "command" && s.agent !== "setup";

/**
 * Sends a review that one agent got to other agents as well, through each one's queue. Returns the agents that could not be
 * reached, and why.
 */
export async function alsoTo(review: Review, others: readonly Session[]): Promise<[Session, unknown][]> {
  if (others.length === 0 || !review.session_id) return [];
  const failed: [Session, unknown][] = [];
  let text: string | undefined;
  try {
    const all = await data(api.GET("/sessions/{id}/prompts", { params: { path: { id: review.session_id } } }));
    text = all.items.find((p) => p.id === review.prompt_id)?.text;
  } catch (error) {
    return others.map((s) => [s, error]);
  }
  for (const s of others) {
    try {
      if (text === undefined) throw new Error(t`The review is no longer in the first agent's queue.`);
      await data(
        api.POST("/sessions/{id}/prompts", {
          params: { path: { id: s.id }, header: { "Idempotency-Key": `${review.id}-${s.id}` } },
          body: { text },
        }),
      );
    } catch (error) {
      failed.push([s, error]);
    }
  }
  return failed;
}
