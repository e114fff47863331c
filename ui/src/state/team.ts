import { t } from "@lingui/core/macro";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import type { Me, Team } from "@/api/client";
import { meQuery } from "@/api/queries";

const route = getRouteApi("/$team");

/** The current team and the user's permissions in it. Only below the shell, which shows another page if there is none. */
export function useTeam(): Team & { can: (action: string) => boolean } {
  const { team } = route.useRouteContext();
  if (!team) throw new Error(t`no team`);
  return { ...team, can: (action) => team.actions.includes(action) };
}

export function useMe(): Me {
  return route.useRouteContext().me;
}

/** Why the user cannot enter one of their teams now; undefined if they can. */
export function closedBy(me: Me, team: Team): "suspended" | "second_factor" | undefined {
  if (team.suspended) return "suspended";
  return team.second_factor && !me.second_factor ? "second_factor" : undefined;
}

/** Reads anew who one is and what one may do, and shows it everywhere. */
export function useRefreshMe(): () => Promise<Me> {
  const client = useQueryClient();
  const router = useRouter();
  return async () => {
    const me = await client.fetchQuery({ ...meQuery(), staleTime: 0 });
    await router.invalidate();
    return me;
  };
}
