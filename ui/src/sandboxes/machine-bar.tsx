import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { executorsQuery, isBeingMade } from "@/api/queries";
import OwnersYes from "@/machines/owner-approval";
import { useTeam } from "@/state/team";
import { offlineMachine } from "./offline";
import { OfflineBar } from "./offline-bar";
import { sandboxQuery } from "./queries";
import { findPlace } from "./which";

/** Shown above a workspace on a machine that is offline or waits for its owner's approval. Otherwise renders nothing. */
export default function MachineBar({ workspace: w, machineId }: { workspace: Workspace; machineId: string }) {
  const team = useTeam();
  const places = useQuery(executorsQuery(team.slug));
  const sandbox = useQuery(sandboxQuery(w.id, true));
  const place = findPlace(places.data, w);
  const offline = offlineMachine(w, place, sandbox.data);
  return (
    <>
      {offline && <OfflineBar key={offline.since ?? 0} workspace={w} offline={offline} sandbox={sandbox.data} />}
      {!offline && (
        <OwnersYes
          machineId={machineId}
          // While it is made its repository is read, which is asked for the project, not for it.
          about={(q) => q.workspace_id === w.id || (q.workspace_id === "" && isBeingMade(w))}
        />
      )}
    </>
  );
}
