import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { workspaceQuery } from "@/api/queries";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Failure, Skeleton } from "@/kit/states";
import { promptsQuery, toldTo } from "./prompts";
import { SessionForm } from "./session-form";

/** Restarts the work with another agent and the same prompts. */
export default function AgainDialog({
  session: s,
  ended,
  onClose,
}: {
  session: Session;
  ended: boolean;
  onClose: () => void;
}) {
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const workspace = useQuery(workspaceQuery(s.workspace_id));
  const prompts = useQuery(promptsQuery(s.workspace_id, s.id));
  return (
    <Dialog
      open
      onClose={onClose}
      title={t`Restart with another agent`}
      about={t`In the same workspace, with the files as ${s.agent_name} left them.`}
    >
      <DialogBody className="pb-4">
        {workspace.isError || prompts.isError ? (
          <Failure what={t`The prompts could not be loaded.`} error={workspace.error ?? prompts.error} />
        ) : !workspace.data || !prompts.data ? (
          <Skeleton label={t`Loading the prompts`} />
        ) : (
          <SessionForm
            workspace={workspace.data}
            after={{ session: s, ended, told: toldTo(s, prompts.data) }}
            onStarted={(next) => {
              onClose();
              void navigate({
                search: (x) => ({ ...x, tab: next.agent === "shell" ? "shell" : undefined, session: next.id }),
              });
            }}
          />
        )}
      </DialogBody>
    </Dialog>
  );
}
