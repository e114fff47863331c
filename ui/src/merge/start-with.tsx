import { t } from "@lingui/core/macro";
import { useNavigate } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { Dialog, DialogBody } from "@/kit/dialog";
import { SessionForm } from "@/sessions/session-form";

/** Starts an agent with a prompt that is written already, where none runs that could be asked. */
export default function StartWith({
  workspace: w,
  prompt,
  onClose,
}: {
  workspace: Workspace;
  prompt: string;
  onClose: () => void;
}) {
  const navigate = useNavigate({ from: "/$team/w/$key" });
  return (
    <Dialog open onClose={onClose} title={t`Start an agent`} about={t`No agent is running in this workspace.`}>
      <DialogBody className="pb-4">
        <SessionForm
          workspace={w}
          prompt={prompt}
          onStarted={(s) => {
            onClose();
            void navigate({ search: (x) => ({ ...x, tab: undefined, session: s.id }) });
          }}
        />
      </DialogBody>
    </Dialog>
  );
}
