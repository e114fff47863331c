import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Empty } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { snapshotSummary } from "@/timeline/snapshot-summary";

/** An archived or deleted workspace: what is stored, and a restore button. */
export function PutAway({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const now = useNow();
  const client = useQueryClient();
  const restore = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/restore", { params: { path: { id: w.id } } })),
    onSuccess: (back) => {
      client.setQueryData(keys.workspace(w.id), back);
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      void client.invalidateQueries({ queryKey: ["workspace", w.id] });
    },
    onError: (error) => toastError(t`${w.name} could not be restored`, error, () => restore.mutate()),
  });
  return (
    <Empty
      title={
        w.deleted_at ? t`Deleted ${ago(w.deleted_at, now)}` : t`Archived ${ago(w.archived_at ?? w.updated_at, now)}`
      }
      action={
        team.can("workspace.edit") && (
          <Button look="primary" busy={restore.isPending && t`Restoring`} onClick={() => restore.mutate()}>
            <Trans>Restore</Trans>
          </Button>
        )
      }
    >
      <Trans>
        {snapshotSummary(w.snapshot)[0]!.toUpperCase() + snapshotSummary(w.snapshot).slice(1)}. Restoring brings back
        the branch and all files, including untracked files.
      </Trans>
    </Empty>
  );
}
