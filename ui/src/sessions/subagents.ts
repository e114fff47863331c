import { plural, t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import type { MarkKind } from "@/kit/mark";

type Subagent = Schemas["Subagent"];

/** How a status is marked. */
export const MARK_OF: Record<Subagent["status"], MarkKind> = {
  spawned: "setup",
  starting: "setup",
  working: "running",
  waiting: "needs",
  completed: "done",
  failed: "failed",
  cancelled: "stopped",
};

export const WORD_OF: Record<Subagent["status"], string> = {
  spawned: t`spawned`,
  starting: t`starting`,
  working: t`working`,
  waiting: t`waiting`,
  completed: t`completed`,
  failed: t`failed`,
  cancelled: t`cancelled`,
};

/** The subagents below a session, and those below them. */
export const subagentsQuery = (team: string, session: string) =>
  queryOptions({
    queryKey: keys.subagents(team, session),
    queryFn: async () => (await data(api.GET("/sessions/{id}/subagents", { params: { path: { id: session } } }))).items,
  });

/** "3 subagents, 1 working, 1 waiting". */
export function subagentWords(all: readonly Pick<Subagent, "status">[]): string {
  const words = [plural(all.length, { one: "# subagent", other: "# subagents" })];
  for (const status of ["spawned", "starting", "working", "waiting", "failed"] as const) {
    const n = all.filter((a) => a.status === status).length;
    if (n > 0) words.push(`${n} ${WORD_OF[status]}`);
  }
  return words.join(", ");
}

/** The subagents below a session, each followed by its own. */
export function inTree<A extends Pick<Subagent, "session_id" | "parent_session_id">>(
  all: readonly A[],
  session: string,
  depth = 0,
): { subagent: A; depth: number }[] {
  return all
    .filter((a) => a.parent_session_id === session)
    .flatMap((a) => [{ subagent: a, depth }, ...inTree(all, a.session_id, depth + 1)]);
}
