import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useIsMutating, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data, type Workspace } from "@/api/client";
import { lossQuery, removeKey } from "@/api/queries";
import { count, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Busy, Failure, FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** Archives or deletes a workspace. Shows first what would be lost, and that it can be restored. */
export default function RemoveDialog({
  workspace: w,
  how,
  onClose,
}: {
  workspace: Workspace;
  how: "archive" | "delete";
  onClose: () => void;
}) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  // Send no queries while it is being removed: the server would refuse them.
  const leaving = useIsMutating({ mutationKey: removeKey(w.id) }) > 0;
  const loss = useQuery({ ...lossQuery(w.id), enabled: !leaving });
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    void client.invalidateQueries({ queryKey: ["workspace", w.id] });
  };
  const undo = async () => {
    try {
      await api.POST("/workspaces/{id}/restore", { params: { path: { id: w.id } } });
      refresh();
      await navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key } });
    } catch (error) {
      toastError(t`${w.name} could not be restored`, error, () => void undo());
    }
  };
  const remove = useMutation({
    mutationKey: removeKey(w.id),
    mutationFn: () =>
      how === "archive"
        ? data(api.POST("/workspaces/{id}/archive", { params: { path: { id: w.id } } }))
        : data(api.DELETE("/workspaces/{id}", { params: { path: { id: w.id } } })),
    onSuccess: async () => {
      await navigate({ to: "/$team/w", params: { team: team.slug } });
      refresh();
      toast({
        title: how === "archive" ? t`${w.name} is archived` : t`${w.name} is in the trash`,
        lasts: 10_000,
        actions: [{ label: t`Undo`, run: () => void undo() }],
      });
    },
  });
  const l = loss.data;
  const nothing = l && l.uncommitted_count === 0 && l.unmerged_commits === 0;

  return (
    <Dialog
      open
      onClose={onClose}
      title={how === "archive" ? t`Archive ${w.name}?` : t`Delete ${w.name}?`}
      about={
        how === "archive"
          ? t`Its work is saved, and you can restore it at any time.`
          : t`Its folder, branch and sandbox are removed. Its work moves to the trash, where you can restore it.`
      }
    >
      <DialogBody>
        {loss.isPending ? (
          <Busy>
            <Trans>Checking its contents…</Trans>
          </Busy>
        ) : loss.isError ? (
          <Failure
            what={t`What would be lost could not be determined.`}
            error={loss.error}
            retry={() => void loss.refetch()}
          />
        ) : (
          l && (
            <ul className="flex flex-col gap-2">
              {l.running_sessions > 0 && (
                <li>
                  <Trans>
                    <span className="text-needs">
                      {plural(l.running_sessions, { one: "# session", other: "# sessions" })}
                    </span>{" "}
                    running in it {l.running_sessions === 1 ? t`is` : t`are`} stopped.
                  </Trans>
                </li>
              )}
              {l.unmerged_commits > 0 && (
                <li>
                  <Trans>
                    <span className="font-medium">
                      {plural(l.unmerged_commits, { one: "# commit", other: "# commits" })}
                    </span>{" "}
                    not in <span className="font-mono text-code">{w.base}</span>.
                  </Trans>
                </li>
              )}
              {l.uncommitted_count > 0 && (
                <li>
                  <Trans>
                    <span className="font-medium">
                      {plural(l.uncommitted_count, { one: "# file", other: "# files" })}
                    </span>{" "}
                    uncommitted:
                  </Trans>
                  <ul
                    // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keyboard
                    tabIndex={0}
                    aria-label={t`Uncommitted files`}
                    className="mt-1 max-h-40 overflow-y-auto rounded-sm bg-bg2 px-2 py-1 font-mono text-code leading-[18px]"
                  >
                    {l.uncommitted.map((path) => (
                      <li key={path} className="break-all">
                        {visible(path)}
                      </li>
                    ))}
                    {l.uncommitted_count > l.uncommitted.length && (
                      <li className="text-fg3">
                        <Trans>and {count(l.uncommitted_count - l.uncommitted.length)} more</Trans>
                      </li>
                    )}
                  </ul>
                </li>
              )}
              <li className="text-fg2">
                {nothing
                  ? t`Everything is merged. Nothing would be lost.`
                  : l.restorable
                    ? t`All of this is saved, including untracked files. Restore brings it back.`
                    : t`These files could not be saved for a later restore.`}
              </li>
            </ul>
          )
        )}
        <div className="mt-3 empty:hidden">
          <FormError error={remove.error} />
        </div>
      </DialogBody>
      <DialogFoot>
        <Button data-first onClick={onClose}>
          <Trans>Cancel</Trans>
        </Button>
        <Button
          look={how === "archive" ? "primary" : "danger"}
          busy={remove.isPending && (how === "archive" ? t`Archiving` : t`Deleting`)}
          disabled={loss.isPending}
          onClick={() => remove.mutate()}
        >
          {how === "archive" ? t`Archive` : t`Delete`}
        </Button>
      </DialogFoot>
    </Dialog>
  );
}
