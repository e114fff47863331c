import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { useTeam } from "@/app/team";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { machineQuery } from "@/machines/api";
import { absence } from "@/machines/away";
import { sandboxQuery } from "@/places/queries";
import { findPlace } from "@/places/which";
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
      {!away && <OwnersYes workspace={w} machineId={machineId} />}
    </>
  );
}

/** What the machine's owner has to allow there before this workspace goes on. */
function OwnersYes({ workspace: w, machineId }: { workspace: Workspace; machineId: string }) {
  const machine = useQuery(machineQuery(machineId));
  const now = useNow();
  const m = machine.data;
  const asked = m?.questions.filter((q) => q.workspace_id === w.id) ?? [];
  if (!m || asked.length === 0) return null;
  return (
    <section
      aria-label={`Waiting for ${m.mine ? "your" : "the owner's"} yes`}
      className="border-b border-hairline bg-bg2 px-4 py-2"
    >
      <p role="status" className="font-medium">
        <span aria-hidden className="text-needs">
          ◆{" "}
        </span>
        Waiting for {m.mine ? "your" : `${m.user_name}'s`} yes at {m.name}
      </p>
      <ul>
        {asked.map((q) => (
          <li key={q.id} className="break-words text-fg2">
            {visible(q.text)} <span className="text-meta text-fg3">asked {ago(q.asked_at, now)}</span>
            {m.mine && (
              <span className="text-meta text-fg3">
                . Answer there: <code className="select-all">parawork runner allow {q.id}</code>
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
