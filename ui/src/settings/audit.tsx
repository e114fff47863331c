import { AuditLog } from "@/people/audit-log";
import { useTeam } from "@/state/team";

/** Who did what in the team. */
export default function AuditSettings() {
  const team = useTeam();
  return (
    <AuditLog
      key={team.id}
      team={team.slug}
      title={`Audit of ${team.name}`}
      about="Every change, done or refused. Entries are sealed: nobody changes one unnoticed."
    />
  );
}
