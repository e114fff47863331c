import { t } from "@lingui/core/macro";
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
      title={t`Start a session`}
      about={t`In ${workspace.name}, alongside its running sessions.`}
    >
      <DialogBody className="pb-4">
        <SessionForm workspace={workspace} onStarted={onStarted} />
      </DialogBody>
    </Dialog>
  );
}
