import { t } from "@lingui/core/macro";
import { AuditLog } from "@/people/audit-log";
import { useTeam } from "@/state/team";

/** Who did what in the team. */
export default function AuditSettings() {
  const team = useTeam();
  return (
    <AuditLog
      key={team.id}
      team={team.slug}
      title={t`Audit log of ${team.name}`}
      about={t`Every change, successful or refused. Entries are sealed, so tampering is detected.`}
    />
  );
}
