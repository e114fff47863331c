import { t } from "@lingui/core/macro";
import { useNavigate } from "@tanstack/react-router";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Composer } from "./composer";
import { WithProjects } from "./with-projects";

/** The composer over whatever page is open. */
export default function ComposerDialog({ projectId }: { projectId: string }) {
  const navigate = useNavigate();
  return (
    <Dialog
      open
      onClose={() => void navigate({ to: ".", search: (s) => ({ ...s, new: undefined }) })}
      wide
      title={t`New workspace`}
    >
      <WithProjects projectId={projectId} otherwise={(shown) => <DialogBody className="pb-5">{shown}</DialogBody>}>
        {(projects, first) => <Composer projects={projects} first={first} focused />}
      </WithProjects>
    </Dialog>
  );
}
