import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { allPages, api, data, type Schemas } from "@/api/client";

export type Entry = Schemas["AuditEntry"];
export type Invite = Schemas["Invite"];
export type MyInvite = Schemas["MyInvite"];
export type InstanceUser = Schemas["InstanceUser"];
export type InstanceTeam = Schemas["InstanceTeam"];

export const peopleKeys = {
  mine: ["me", "invites"] as const,
  invites: (team: string) => ["team", team, "invites"] as const,
  users: ["instance", "users"] as const,
  teams: ["instance", "teams"] as const,
  audit: (team: string | undefined) => (team ? (["team", team, "audit"] as const) : (["instance", "audit"] as const)),
};

export const invitesQuery = (team: string) =>
  queryOptions({
    queryKey: peopleKeys.invites(team),
    queryFn: async () => (await data(api.GET("/teams/{team}/invites", { params: { path: { team } } }))).items,
  });

/** The signed-in user's invitations. They have no events, so they are polled while the page is open. */
export const myInvitesQuery = () =>
  queryOptions({
    queryKey: peopleKeys.mine,
    queryFn: () => data(api.GET("/me/invites")),
    staleTime: 60_000,
    refetchInterval: 300_000,
  });

export const usersQuery = (q: string) =>
  infiniteQueryOptions({
    queryKey: [...peopleKeys.users, q],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      data(api.GET("/instance/users", { params: { query: { q: q || undefined, cursor: pageParam, limit: 50 } } })),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });

export const instanceTeamsQuery = () =>
  queryOptions({
    queryKey: peopleKeys.teams,
    queryFn: () =>
      allPages((cursor) => data(api.GET("/instance/teams", { params: { query: { cursor, limit: 200 } } }))),
  });

/** What is asked of the audit. Empty = all. */
export interface Asked {
  actor: string;
  action: string;
  target: string;
  result: "" | Entry["result"];
  from?: number;
  to?: number;
}

const queryOf = (a: Asked) => ({
  actor: a.actor || undefined,
  action: a.action || undefined,
  target: a.target || undefined,
  result: a.result || undefined,
  from: a.from,
  to: a.to,
});

/** The audit of a team, or of the instance where there is no team. */
export const auditQuery = (team: string | undefined, asked: Asked) =>
  infiniteQueryOptions({
    queryKey: [...peopleKeys.audit(team), asked],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => {
      const query = { ...queryOf(asked), cursor: pageParam, limit: 50 };
      return team
        ? data(api.GET("/teams/{team}/audit", { params: { path: { team }, query } }))
        : data(api.GET("/instance/audit", { params: { query } }));
    },
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });

/** The path, below /api/v1, of the file with what is asked for. */
export function exportPath(team: string | undefined, asked: Asked, format: "csv" | "json"): string {
  const query = new URLSearchParams({ format });
  for (const [k, v] of Object.entries(queryOf(asked))) if (v !== undefined) query.set(k, String(v));
  return `${team ? `/teams/${encodeURIComponent(team)}` : "/instance"}/audit/export?${query}`;
}
