import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { Schemas, Workspace } from "@/api/client";
import { MenuItem, MenuLabel, MenuLine } from "@/kit/menu";
import { toast, toastError } from "@/state/toasts";
import { noticesQuery, setMute, tomorrow } from "./api";

/** Mutes a workspace for the person, or ends that. */
export default function MuteItems({ workspace: w }: { workspace: Workspace }) {
  const client = useQueryClient();
  const muted = useQuery(noticesQuery()).data?.mutes.find((m) => m.workspace_id === w.id);
  const set = useMutation({
    mutationFn: (mute: Schemas["NewMute"] | undefined) => setMute(w.id, mute),
    onSuccess: (_, mute) =>
      toast({ kind: "good", title: mute ? t`${w.key} is muted` : t`${w.key} is no longer muted` }),
    onError: (error) => toastError(t`The workspace was not muted`, error),
    onSettled: () => client.invalidateQueries({ queryKey: ["notices"] }),
  });
  return (
    <>
      <MenuLine />
      <MenuLabel>
        <Trans>Notifications</Trans>
      </MenuLabel>
      {muted ? (
        <MenuItem onSelect={() => set.mutate(undefined)}>
          <Trans>Unmute</Trans>
        </MenuItem>
      ) : (
        <>
          <MenuItem onSelect={() => set.mutate({ mode: "until", until: tomorrow(new Date()) })}>
            <Trans>Mute until tomorrow</Trans>
          </MenuItem>
          <MenuItem onSelect={() => set.mutate({ mode: "question" })}>
            <Trans>Mute until it needs an answer</Trans>
          </MenuItem>
          <MenuItem onSelect={() => set.mutate({ mode: "always" })}>
            <Trans>Mute</Trans>
          </MenuItem>
        </>
      )}
      <MenuLine />
    </>
  );
}
