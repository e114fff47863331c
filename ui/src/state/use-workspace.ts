import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { workspaceQuery, workspacesQuery } from "@/api/queries";

interface Found {
  workspace: Workspace | undefined;
  pending: boolean;
  error: unknown;
  retry: () => void;
}

/** The workspace of an address: by its key (PW-12) or id, at work or put away. */
export function useWorkspaceByKey(team: string, key: string): Found {
  const has = (w: Workspace) => w.key === key || w.id === key;
  const active = useQuery(workspacesQuery(team, "active"));
  let item = active.data?.find(has);
  const away = active.isSuccess && !item;
  const archived = useQuery({ ...workspacesQuery(team, "archived"), enabled: away });
  const trash = useQuery({ ...workspacesQuery(team, "trash"), enabled: away });
  item ??= archived.data?.find(has) ?? trash.data?.find(has);

  const full = useQuery({ ...workspaceQuery(item?.id ?? ""), enabled: item !== undefined });
  // The list is refreshed by events as well: whichever is newer is shown.
  const newest = full.data && item && full.dataUpdatedAt >= active.dataUpdatedAt ? full.data : (item ?? full.data);
  const failed = [active, archived, trash].find((q) => q.isError);
  return {
    workspace: newest,
    pending: !item && (active.isPending || (away && (archived.isPending || trash.isPending))),
    error: item ? undefined : failed?.error,
    retry: () => {
      void active.refetch();
      if (away) {
        void archived.refetch();
        void trash.refetch();
      }
    },
  };
}
