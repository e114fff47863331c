import type { Session, Workspace } from "@/api/client";
import { Dialog, DialogBody } from "@/kit/dialog";
import { SessionForm } from "./session-form";

export function StartDialog({
  workspace,
  onClose,
  onStarted,
}: {
  workspace: Workspace;
  onClose: () => void;
  onStarted: (s: Session) => void;
}) {
  return (
    <Dialog
      open
      onClose={onClose}
      title="Start a session"
      about={`In ${workspace.name}, alongside its running sessions.`}
    >
      <DialogBody className="pb-4">
        <SessionForm workspace={workspace} onStarted={onStarted} />
      </DialogBody>
    </Dialog>
  );
}
