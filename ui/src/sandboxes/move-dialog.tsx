import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { Dialog } from "@/kit/dialog";
import { useTeam } from "@/state/team";
import { Move } from "./move";
import { findPlace } from "./which";

/** Moves a workspace to another place. */
export default function MoveDialog({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const place = findPlace(useQuery(executorsQuery(team.slug)).data, w);
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title={t`Move ${w.key} to another place`}
      about={t`It is in ${place?.name ?? (w.runner_name || w.executor)} now. Nothing happens until you press Move.`}
    >
      <Move workspace={w} onClose={onClose} />
    </Dialog>
  );
}
