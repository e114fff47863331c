import { getRouteApi } from "@tanstack/react-router";
import type { Me, Team } from "@/api/client";

const route = getRouteApi("/$team");

/** The team of the page and what one may do in it. Only below the shell, which shows another page when there is none. */
export function useTeam(): Team & { can: (action: string) => boolean } {
  const { team } = route.useRouteContext();
  if (!team) throw new Error("no team");
  return { ...team, can: (action) => team.actions.includes(action) };
}

export function useMe(): Me {
  return route.useRouteContext().me;
}
