import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { MenuItem } from "@/kit/menu";
import { useMe, useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** Makes a workspace private to its owner, or visible to the team. */
export function PrivacyItem({ workspace: w }: { workspace: Workspace }) {
  const me = useMe();
  const team = useTeam();
  const client = useQueryClient();
  const set = useMutation({
    mutationFn: (to: boolean) =>
      data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: { private: to } })),
    onSuccess: (now) => {
      client.setQueryData(keys.workspace(w.id), now);
      toast(
        now.private
          ? {
              kind: "good",
              title: t`${w.key} is private`,
              text: t`Nobody else can see it. Others who had it open were disconnected.`,
            }
          : { kind: "good", title: t`${w.key} is visible to the team` },
      );
    },
    onError: (error) => toastError(t`The visibility of the workspace was not changed`, error),
    onSettled: () => void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] }),
  });
  // Only who made it makes it private; whoever sees a private one may open it: its owner, or admins once the owner has left.
  if (!team.can("workspace.edit") || (!w.private && w.owner.id !== me.user.id)) return null;
  return (
    <MenuItem onSelect={() => set.mutate(!w.private)}>
      {w.private ? t`Make visible to the team` : t`Make private`}
    </MenuItem>
  );
}
