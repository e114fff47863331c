import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { executorsQuery, isBeingMade } from "@/api/queries";
import { useTeam } from "@/app/team";
import { absence } from "@/machines/away";
import { sandboxQuery } from "@/places/queries";
import { findPlace } from "@/places/which";
import OwnersYes from "../machines/owners-yes";
import { OfflineBar } from "./offline-bar";

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
