import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { ownSecretsQuery } from "@/api/queries";
import { useTeam } from "@/app/team";
import { plural } from "@/format/text";
import { MenuItem } from "@/kit/menu";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";

/** Lets one's own secrets into a workspace that others work in, or keeps them out again. */
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
        title: now.agreed ? `Your own secrets are given in ${w.key}` : `Your own secrets stay out of ${w.key}`,
        text: now.agreed
          ? "To the sessions you start from now on."
          : "Others wait until sessions that have them have ended.",
      });
    },
    onError: (error) => toastError("Nothing was changed for your own secrets", error),
  });
  if (!may || !own?.others || (own.count === 0 && !own.agreed)) return null;
  const agree = async () => {
    const yes = await confirm({
      title: `Give your own secrets in ${w.key}?`,
      body: `Everybody who works in this workspace could read the ${plural(own.count, "secret")} of your own that your sessions here are given. Nobody else's sessions get them. Only you can say this, and you can take it back; what was read by then stays read.`,
      action: "Give them",
      danger: true,
    });
    if (yes) set.mutate(true);
  };
  return (
    <MenuItem onSelect={() => (own.agreed ? set.mutate(false) : void agree())}>
      {own.agreed ? "Keep my own secrets out" : "Give my own secrets here…"}
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
      {own.count === 1 ? "A secret of your own is" : `${own.count} secrets of your own are`} not given here: others who
      work in this workspace could read {own.count === 1 ? "it" : "them"}. The workspace's menu has what to do about it.
    </p>
  );
}
