import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

export type Notice = Schemas["Notice"];
export type Mute = Schemas["Mute"];

/** What happened for the person in all their teams, and what they muted. */
export const noticesQuery = () =>
  queryOptions({ queryKey: ["notices"] as const, queryFn: () => data(api.GET("/me/notices")), staleTime: 60_000 });

/** Marks notices as read or unread; all as read without ids. */
export const markNotices = (ids?: string[], read = true) =>
  data(api.POST("/me/notices/read", { body: { ...(ids ? { ids } : {}), read } }));

/** Mutes a workspace; undefined unmutes it. */
export const setMute = (id: string, mute: Schemas["NewMute"] | undefined) =>
  mute
    ? data(api.PUT("/workspaces/{id}/mute", { params: { path: { id } }, body: mute }))
    : data(api.DELETE("/workspaces/{id}/mute", { params: { path: { id } } }));

/** Nine in the morning of the next day, where the browser is. */
export function tomorrow(now: Date): number {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 9).getTime();
}

/** Whether a mute silences something of a kind now. */
export function silences(m: Mute, kind: string, now: number): boolean {
  if (m.mode === "until") return now < (m.until ?? 0);
  return m.mode === "always" || kind !== "question";
}
