import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { executorsQuery, isBeingMade } from "@/api/queries";
import OwnersYes from "@/machines/owner-approval";
import { useTeam } from "@/state/team";
import { absence } from "./away";
import { OfflineBar } from "./offline-bar";
import { sandboxQuery } from "./queries";
import { findPlace } from "./which";

/** Above a workspace on a member's machine: that the machine is away, or that its owner is asked. Nothing while all is well. */
export default function MachineBar({ workspace: w, machineId }: { workspace: Workspace; machineId: string }) {
  const team = useTeam();
  const places = useQuery(executorsQuery(team.slug));
  const sandbox = useQuery(sandboxQuery(w.id, true));
  const place = findPlace(places.data, w);
  const away = absence(w, place, sandbox.data);
  return (
    <>
      {away && <OfflineBar key={away.since ?? 0} workspace={w} away={away} sandbox={sandbox.data} />}
      {!away && (
        <OwnersYes
          machineId={machineId}
          // While it is made its repository is read, which is asked for the project, not for it.
          about={(q) => q.workspace_id === w.id || (q.workspace_id === "" && isBeingMade(w))}
        />
      )}
    </>
  );
}
