import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { workspacesQuery } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { useTeam } from "@/state/team";
import { type Group, standing } from "@/workspaces/groups";
import { pinsOf } from "@/workspaces/pins";
import { sidebarOrder } from "@/workspaces/sidebar-rows";
import { filtering, setSidebar, sidebarView } from "@/workspaces/sidebar-view";
import { useLooking } from "@/workspaces/unread";

const NEEDY: ReadonlySet<Group> = new Set(["needs", "stuck"]);
const isNeedy = (w: Workspace) => NEEDY.has(standing(w).group);

/** The keys of the sidebar, which step through workspaces also while it is hidden; and what is looked at becomes read. */
export function WorkspaceKeys() {
  const team = useTeam();
  const navigate = useNavigate();
  const { key } = useParams({ strict: false });
  const list = useQuery(workspacesQuery(team.slug));
  useLooking(team.slug, list.data, key ? list.data?.find((w) => w.key === key) : undefined);

  // Worked out when a key is pressed, not whenever something changes.
  const go = (by: number, among: (w: Workspace) => boolean = () => true) => {
    const view = { ...sidebarView.get(), pins: pinsOf(team.slug).get(), filter: "" };
    const order = sidebarOrder(list.data ?? [], view).filter(among);
    const at = order.findIndex((w) => w.key === key);
    const next = at < 0 ? order.at(Math.min(0, by)) : order[(at + by + order.length) % order.length];
    if (next) void navigate({ to: "/$team/w/$key", params: { team: team.slug, key: next.key } });
  };
  const some = (list.data?.length ?? 0) > 0;
  useAction("go.next", () => go(1), some);
  useAction("go.previous", () => go(-1), some);
  useAction("go.needs", () => go(1, isNeedy), list.data?.some(isNeedy));
  useAction("sidebar", () => setSidebar({ shown: !sidebarView.get().shown }));
  useAction("sidebar.filter", () => {
    setSidebar({ shown: true });
    filtering.set(true);
  });
  return null;
}
