import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";

/** Pushes the branch to the repository in the machine's folder. */
export default function Deliver({ workspace: w, folder }: { workspace: Workspace; folder: string }) {
  const client = useQueryClient();
  const machine = w.runner_name || t`the machine`;
  const deliver = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/deliver", { params: { path: { id: w.id } } })),
    onSuccess: (d) => {
      toast({
        kind: "good",
        title: t`${visible(d.branch)} is in the repository on ${machine}`,
        text: t`At commit ${short(d.commit)}, in ${visible(folder)}. Nothing was checked out or merged there.`,
      });
      void client.invalidateQueries({ queryKey: keys.activity(w.id) });
    },
    onError: (error) => toastError(t`The branch was not delivered`, error, () => deliver.mutate()),
  });
  const ask = async () => {
    const yes = await confirm({
      title: t`Deliver ${w.branch} to ${machine}?`,
      body: t`Its commits become the branch ${w.branch} of the repository in ${visible(folder)}. Files checked out there do not change. Uncommitted changes are not delivered.`,
      action: t`Deliver`,
    });
    if (yes) deliver.mutate();
  };
  return (
    <Button
      busy={deliver.isPending && t`Delivering`}
      onClick={() => void ask()}
      title={t`Put the branch into the repository in ${visible(folder)} on ${machine}`}
    >
      <Trans>Deliver</Trans>
    </Button>
  );
}
