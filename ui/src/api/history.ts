import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas, type Session } from "./client";
import { keys } from "./queries";

/** Something that happened in a session. */
export interface Moment {
  key: string;
  at: number;
  kind: "prompt" | "question" | "answer" | "interrupt" | "state" | "files" | "commit";
  text: string;
  paths?: string[];
}

type Entry = Schemas["JournalEntry"];
type Activity = Schemas["Activity"];

/** Maximum number of journal entries to read; a session has a few hundred. */
const MOST = 5000;

/** Navigable events of a session: prompts, questions, files, commits. */
export const momentsQuery = (s: Session) =>
  queryOptions({
    queryKey: ["history", "moments", s.id, s.ended_at] as const,
    staleTime: 10_000,
    queryFn: async (): Promise<Moment[]> => {
      const [journal, done] = await Promise.all([
        data(
          api.GET("/sessions/{id}/journal", {
            params: {
              path: { id: s.id },
              query: { limit: MOST, kinds: "prompt,question,answer,interrupt,state,files" },
            },
          }),
        ),
        data(api.GET("/workspaces/{id}/activity", { params: { path: { id: s.workspace_id }, query: { limit: 200 } } })),
      ]);
      const until = s.ended_at ?? Number.POSITIVE_INFINITY;
      return [
        ...journal.items.flatMap(ofEntry),
        ...done.items.filter((a) => a.at >= s.started_at && a.at <= until).flatMap(ofActivity),
      ].sort((a, b) => a.at - b.at);
    },
  });

function ofEntry(e: Entry): Moment[] {
  const d = (e.data ?? {}) as Record<string, unknown>;
  const str = (name: string) => (typeof d[name] === "string" ? (d[name] as string) : "");
  const make = (kind: Moment["kind"], text: string, more: Partial<Moment> = {}): Moment[] => [
    { key: `j${e.seq}`, at: e.at, kind, text, ...more },
  ];
  switch (e.kind) {
    case "prompt":
      return make("prompt", str("text") || t`A prompt`);
    case "question":
      return make("question", str("title") || t`A question`);
    case "answer":
      return make("answer", str("label") || str("answer") || t`An answer`);
    case "interrupt":
      return make("interrupt", t`Interrupted`);
    case "files": {
      const paths = Array.isArray(d.paths) ? d.paths.filter((p): p is string => typeof p === "string") : [];
      const more = typeof d.more === "number" ? d.more : 0;
      return make("files", paths.join(", ") + (more > 0 ? t` and ${more} more` : ""), { paths });
    }
    case "state":
      return ["waiting", "failed", "lost"].includes(str("state")) ? make("state", str("reason") || str("state")) : [];
    default:
      return [];
  }
}

function ofActivity(a: Activity): Moment[] {
  if (a.kind !== "commit" && a.kind !== "merge") return [];
  return [{ key: `a${a.id}`, at: a.at, kind: "commit", text: a.text }];
}

export interface SearchWish {
  q: string;
  regex: boolean;
  caseSensitive: boolean;
  /** Only sessions of this agent; "" = all. */
  agent: string;
}

/** Searches the output of all the workspace's sessions, page by page. */
export const searchQuery = (workspaceId: string, w: SearchWish) => ({
  queryKey: [...keys.workspace(workspaceId), "search", w] as const,
  queryFn: ({ pageParam, signal }: { pageParam: string; signal: AbortSignal }) =>
    data(
      api.GET("/workspaces/{id}/search", {
        params: {
          path: { id: workspaceId },
          query: {
            q: w.q,
            regex: w.regex,
            case: w.caseSensitive,
            limit: 50,
            ...(w.agent ? { agent: w.agent } : {}),
            ...(pageParam ? { cursor: pageParam } : {}),
          },
        },
        signal,
      }),
    ),
  initialPageParam: "",
  getNextPageParam: (last: Schemas["SearchResult"]) => last.next_cursor ?? undefined,
  staleTime: 30_000,
  retry: false,
});

export const teamStorageQuery = (team: string) =>
  queryOptions({
    queryKey: ["team", team, "storage"] as const,
    queryFn: () => data(api.GET("/teams/{team}/storage", { params: { path: { team } } })),
    staleTime: 10_000,
  });

export const workspaceStorageQuery = (id: string) =>
  queryOptions({
    queryKey: [...keys.workspace(id), "storage"] as const,
    queryFn: () => data(api.GET("/workspaces/{id}/storage", { params: { path: { id } } })),
    staleTime: 10_000,
  });
