import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { ownSecretsQuery } from "@/api/queries";
import { MenuItem } from "@/kit/menu";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** The item of a workspace's menu that lets one's own secrets into a workspace others work in, or keeps them out again. */
export function OwnSecretsItem({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const client = useQueryClient();
  const may = team.can("terminal.type");
  const own = useQuery({ ...ownSecretsQuery(w.id), enabled: may }).data;
  const set = useMutation({
    mutationFn: (agreed: boolean) =>
      data(api.PUT("/workspaces/{id}/own-secrets", { params: { path: { id: w.id } }, body: { agreed } })),
    onSuccess: (now) => {
      client.setQueryData(ownSecretsQuery(w.id).queryKey, now);
      toast({
        kind: "good",
        title: now.agreed ? `Your sessions in ${w.key} get your own secrets` : `Your own secrets stay out of ${w.key}`,
        text: now.agreed
          ? "This holds for sessions you start from now on."
          : "Others can type here again once the sessions that have them have ended.",
      });
    },
    onError: (error) => toastError("Who gets your own secrets was not changed", error),
  });
  if (!may || !own?.others || (own.count === 0 && !own.agreed)) return null;
  const agree = async () => {
    const yes = await confirm({
      title: `Use your own secrets in ${w.key}?`,
      body: `Sessions you start here get your ${own.count === 1 ? "own secret" : `${own.count} own secrets`}. Everybody who works in this workspace could then read ${own.count === 1 ? "it" : "them"}. You can stop this at any time, but not undo what somebody has read until then.`,
      action: "Use them",
      danger: true,
    });
    if (yes) set.mutate(true);
  };
  return (
    <MenuItem onSelect={() => (own.agreed ? set.mutate(false) : void agree())}>
      {own.agreed ? "Stop using my own secrets here" : "Use my own secrets here…"}
    </MenuItem>
  );
}

/** Says, where a session is started, that one's own secrets stay out of it. */
export function OwnSecretsNote({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const own = useQuery({ ...ownSecretsQuery(w.id), enabled: team.can("terminal.type") }).data;
  if (!own || own.given || own.count === 0) return null;
  return (
    <p className="text-[12px] text-fg3">
      Sessions here do not get your {own.count === 1 ? "own secret" : `${own.count} own secrets`}: others who work in
      this workspace could read {own.count === 1 ? "it" : "them"}. You can change this in the workspace's menu.
    </p>
  );
}
