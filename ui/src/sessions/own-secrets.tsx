import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { ownSecretsQuery } from "@/api/queries";
import { MenuItem } from "@/kit/menu";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** The menu item that allows the user's own secrets in a shared workspace, or stops that. */
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
        title: now.agreed
          ? t`Your sessions in ${w.key} get your own secrets`
          : t`${w.key} no longer gets your own secrets`,
        text: now.agreed
          ? t`This applies to sessions you start from now on.`
          : t`Others can type here again after the sessions with your secrets have ended.`,
      });
    },
    onError: (error) => toastError(t`The setting for your own secrets was not changed`, error),
  });
  if (!may || !own?.others || (own.count === 0 && !own.agreed)) return null;
  const agree = async () => {
    const yes = await confirm({
      title: t`Use your own secrets in ${w.key}?`,
      body: t`Sessions you start here get your ${own.count === 1 ? t`own secret` : t`${own.count} own secrets`}. Everyone who works in this workspace could then read ${own.count === 1 ? t`it` : t`them`}. You can turn this off at any time, but you cannot undo what others have already read.`,
      action: t`Use secrets`,
      danger: true,
    });
    if (yes) set.mutate(true);
  };
  return (
    <MenuItem onSelect={() => (own.agreed ? set.mutate(false) : void agree())}>
      {own.agreed ? t`Stop using my own secrets here` : t`Use my own secrets here…`}
    </MenuItem>
  );
}

/** Tells a user who starts a session that it does not get their own secrets. */
export function OwnSecretsNote({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const own = useQuery({ ...ownSecretsQuery(w.id), enabled: team.can("terminal.type") }).data;
  if (!own || own.given || own.count === 0) return null;
  return (
    <p className="text-code text-fg3">
      <Trans>
        Sessions here do not get your {own.count === 1 ? t`own secret` : t`${own.count} own secrets`}: others who work
        in this workspace could read {own.count === 1 ? t`it` : t`them`}. You can change this in the workspace's menu.
      </Trans>
    </p>
  );
}
