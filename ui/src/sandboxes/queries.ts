import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";

/** What is asked of places, limits and networks. events.ts invalidates by these keys. */
export const placeKeys = {
  policy: (team: string) => ["team", team, "places"] as const,
  caches: (team: string) => ["team", team, "caches"] as const,
  limits: (id: string) => ["workspace", id, "limits"] as const,
  network: (id: string) => ["workspace", id, "network"] as const,
  image: (project: string) => ["project", project, "image"] as const,
  build: (id: string) => ["image-build", id] as const,
};

export const policyQuery = (team: string) =>
  queryOptions({
    queryKey: placeKeys.policy(team),
    queryFn: () => data(api.GET("/teams/{team}/places", { params: { path: { team } } })),
  });

export const cachesQuery = (team: string) =>
  queryOptions({
    queryKey: placeKeys.caches(team),
    queryFn: () => data(api.GET("/teams/{team}/caches", { params: { path: { team } } })),
  });

/** The sandbox with its live figures. `live` asks again every few seconds. */
export const sandboxQuery = (id: string, live: boolean) =>
  queryOptions({
    queryKey: keys.sandbox(id),
    queryFn: () => data(api.GET("/workspaces/{id}/sandbox", { params: { path: { id } } })),
    // Events announce each step; polling covers a lost connection.
    refetchInterval: (q) => live && (q.state.data?.state === "starting" ? 1500 : 5000),
    retry: false, // there may never have been one
  });

export const limitsQuery = (id: string) =>
  queryOptions({
    queryKey: placeKeys.limits(id),
    queryFn: () => data(api.GET("/workspaces/{id}/limits", { params: { path: { id } } })),
  });

export const workspacePlacesQuery = (id: string) =>
  queryOptions({
    queryKey: ["workspace", id, "places"],
    queryFn: () => data(api.GET("/workspaces/{id}/places", { params: { path: { id } } })),
  });

export const networkQuery = (id: string) =>
  queryOptions({
    queryKey: placeKeys.network(id),
    queryFn: () => data(api.GET("/workspaces/{id}/network", { params: { path: { id } } })),
  });

export const imageQuery = (project: string) =>
  queryOptions({
    queryKey: placeKeys.image(project),
    queryFn: () => data(api.GET("/projects/{id}/image", { params: { path: { id: project } } })),
    refetchInterval: (q) => (q.state.data?.builds.some((b) => b.state === "building") ? 2000 : false),
  });
