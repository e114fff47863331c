import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { workspaceQuery } from "@/api/queries";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Failure, Skeleton } from "@/kit/states";
import { promptsQuery, toldTo } from "./prompts";
import { SessionForm } from "./session-form";

/** Another agent in place of this one, told what this one was told. */
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
      title="Start again with another agent"
      about={`In the same workspace: the files are as ${s.agent_name} left them.`}
    >
      <DialogBody className="pb-4">
        {workspace.isError || prompts.isError ? (
          <Failure what="What it was told could not be read." error={workspace.error ?? prompts.error} />
        ) : !workspace.data || !prompts.data ? (
          <Skeleton label="Reading what it was told" />
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
