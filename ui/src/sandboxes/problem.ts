import { ApiError } from "@/api/problem";
import { type Refusal, refusalOf } from "@/costs/refusal";
import { Store } from "@/state/store";

/** What somebody can do about a place that cannot serve. */
export type Way = "retry" | "free_place" | "upgrade" | "settings";

export interface ServeProblem {
  /** no_key, bad_key, quota, capacity, outage, rate_limited, template_missing, guest_failed, refused, budget, timeout; "" when unknown. */
  reason: string;
  message: string;
  ways: readonly Way[];
  requestId: string;
  /** It is a quota, a budget or a payment that keeps it from beginning. */
  refusal?: Refusal;
}

const WAYS: readonly Way[] = ["retry", "free_place", "upgrade", "settings"];

/** The problem in an error response, if a place is unavailable or not allowed. */
export function serveProblem(error: unknown): ServeProblem | undefined {
  const refusal = refusalOf(error);
  if (!(error instanceof ApiError) || (error.code !== "place_cannot_serve" && !refusal)) return undefined;
  const { reason, ways } = error.details;
  const offered = Array.isArray(ways)
    ? WAYS.filter((w) => ways.includes(w))
    : (["retry", "free_place"] as readonly Way[]);
  return {
    reason: typeof reason === "string" ? reason : "",
    message: error.message,
    // What was refused can be tried again when somebody raised what was in its way.
    ways: refusal ? WAYS.filter((w) => w === "retry" || offered.includes(w)) : offered,
    requestId: error.requestId,
    ...(refusal ? { refusal } : {}),
  };
}

/** What a sandbox that was not made left behind: its words alone. */
export const fromWords = (message: string): ServeProblem => ({
  reason: "",
  message,
  ways: ["retry", "free_place", "settings"],
  requestId: "",
});

/** The newest problem of each workspace on this page, so that its panel knows more than a sandbox's record does. */
export const problems = new Store<Record<string, ServeProblem>>({});

/** Stores the problem with a workspace's place from an error response. Reports whether it was one. */
export function noteProblem(workspaceId: string, error: unknown): boolean {
  const p = serveProblem(error);
  if (p) problems.update((all) => ({ ...all, [workspaceId]: p }));
  return p !== undefined;
}

export function clearProblem(workspaceId: string): void {
  if (!(workspaceId in problems.get())) return;
  problems.update(({ [workspaceId]: _, ...rest }) => rest);
}
