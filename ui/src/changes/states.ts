import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import type { Snapshot } from "@/timeline/name";

/** Snapshots a page of the list has. */
const PAGE = 100;

/** A workspace's snapshots, newest first; with polls, every file change as well. */
export const statesQuery = (id: string, polls: boolean) =>
  infiniteQueryOptions({
    queryKey: [...keys.timeline(id), "states", polls],
    queryFn: async ({ pageParam }) => {
      const kind = polls ? "poll,turn,commit,kept,manual" : "turn,commit,kept,manual";
      const query = { limit: PAGE, kind, ...(pageParam ? { cursor: pageParam } : {}) };
      const found = await data(api.GET("/workspaces/{id}/timeline", { params: { path: { id }, query } }));
      return {
        snapshots: found.items.map((i) => i.snapshot).filter((s): s is Snapshot => s !== undefined),
        next: found.next_cursor,
      };
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next ?? undefined,
  });
