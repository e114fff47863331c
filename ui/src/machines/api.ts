import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

/** A member's own machine as people of its team see it. */
export type Machine = Schemas["Runner"];
/** The program for a machine, as this server offers it. */
export type Download = Schemas["RunnerDownload"];
export type NewToken = Schemas["NewRunner"];
/** A new token with its command: the only time both are shown. */
export type MadeToken = Schemas["RunnerEnrolment"];
/** A token that can still connect machines. */
export type OpenToken = Schemas["RunnerToken"];
/** One connection of a machine. */
export type Connection = Schemas["RunnerConnection"];

export const machineKeys = {
  all: (team: string) => ["team", team, "runners"] as const,
  tokens: (team: string) => ["team", team, "runner-tokens"] as const,
  one: (id: string) => ["runner", id] as const,
  history: (id: string) => ["runner", id, "history"] as const,
  folders: (id: string) => ["runner", id, "folders"] as const,
};

/** How often metrics are refetched: machines report every 10 s. */
const PACE = 10_000;

const one = (id: string) => ({ params: { path: { id } } });

/** The machines of a team, and whether this server lets members connect any. */
export const machineListQuery = (team: string) =>
  queryOptions({
    queryKey: machineKeys.all(team),
    queryFn: () => data(api.GET("/teams/{team}/runners", { params: { path: { team } } })),
    refetchInterval: PACE,
  });

export const machinesQuery = (team: string) =>
  queryOptions({ ...machineListQuery(team), select: (list: Schemas["RunnerList"]) => list.items });

export const machineQuery = (id: string) =>
  queryOptions({
    queryKey: machineKeys.one(id),
    queryFn: () => data(api.GET("/runners/{id}", one(id))),
    refetchInterval: PACE,
    retry: false,
  });

export const openTokensQuery = (team: string) =>
  queryOptions({
    queryKey: machineKeys.tokens(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/runner-tokens", { params: { path: { team } } }))).items,
  });

export const historyQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: machineKeys.history(id),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/runners/{id}/history", {
          params: { path: { id }, query: { limit: 20, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });

export const foldersQuery = (id: string) =>
  queryOptions({
    queryKey: machineKeys.folders(id),
    queryFn: async () => (await data(api.GET("/runners/{id}/folders", one(id)))).items,
    retry: false,
  });

export const makeToken = (team: string, body: NewToken) =>
  data(api.POST("/teams/{team}/runners", { params: { path: { team } }, body }));
export const endToken = (id: string) => api.DELETE("/runner-tokens/{id}", one(id));
export const renameMachine = (id: string, name: string) =>
  data(api.PATCH("/runners/{id}", { ...one(id), body: { name } }));
export const revokeMachine = (id: string) => api.DELETE("/runners/{id}", one(id));
export const regenerate = (id: string) => data(api.POST("/runners/{id}/regenerate", one(id)));
