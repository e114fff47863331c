import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { allPages, api, data, type Schemas, type Session } from "@/api/client";
import type { MarkKind } from "@/kit/mark";
import { hasEnded, sessionMark } from "@/sessions/sessions";

export type Run = Schemas["Run"];
export type Attempt = Schemas["Attempt"];
export const MAX_ATTEMPTS = 8;

export const runKeys = {
  one: (id: string) => ["run", id] as const,
  all: (team: string) => ["team", team, "runs"] as const,
};

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: runKeys.one(id),
    queryFn: () => data(api.GET("/runs/{id}", { params: { path: { id } } })),
    // States, lines and times of several workspaces: read while any of them moves.
    refetchInterval: (q) => (q.state.data?.attempts.some(moves) === false ? false : 2000),
  });

export const runsQuery = (team: string) =>
  queryOptions({
    queryKey: runKeys.all(team),
    queryFn: () =>
      allPages((cursor) =>
        data(api.GET("/teams/{team}/runs", { params: { path: { team }, query: { limit: 200, cursor } } })),
      ),
  });

/** Whether an attempt may still change by itself. */
export function moves(a: Attempt): boolean {
  if (a.state === "failed") return false;
  return a.state !== "started" || !a.session || !hasEnded(a.session);
}

/** Where an attempt stands, by shape and word. */
export function attemptMark(a: Attempt): { mark: MarkKind; word: string; why: string } {
  switch (a.state) {
    case "making":
      return { mark: "setup", word: t`Creating the workspace`, why: "" };
    case "starting":
      return { mark: "setup", word: t`Starting`, why: "" };
    case "failed":
      return { mark: "failed", word: t`Failed`, why: a.reason };
  }
  if (a.workspace?.deleted_at) return { mark: "stopped", word: t`In the trash`, why: "" };
  if (a.workspace?.state === "archived") return { mark: "stopped", word: t`Archived`, why: "" };
  if (!a.session) return { mark: "stopped", word: t`Deleted`, why: "" };
  return { ...sessionMark(a.session), why: a.session.state === "waiting" ? a.session.state_reason : "" };
}

/** How long the agent took: until it ended or fell idle, or until now. undefined before it started. */
export function took(s: Session | null, now: number): number | undefined {
  if (!s) return undefined;
  const until = s.ended_at ?? (s.state === "idle" ? s.state_at : now);
  return Math.max(0, until - s.started_at);
}

/** The model that an attempt's arguments name; "" if they name none. */
export function modelOf(argv: readonly string[]): string {
  const at = argv.findIndex((a) => a === "--model" || a === "-m");
  return (at >= 0 ? argv[at + 1] : argv.find((a) => a.startsWith("--model="))?.slice("--model=".length)) ?? "";
}
