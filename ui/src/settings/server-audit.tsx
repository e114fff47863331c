import { t } from "@lingui/core/macro";
import { AuditLog } from "@/people/audit-log";

/** Who did what on the server, outside teams. */
export default function ServerAuditSettings() {
  return (
    <AuditLog
      title={t`Audit log of the server`}
      about={t`Sign-ins, users' own accounts, user management, server settings, and attempts by outsiders. Each team has its own audit log.`}
    />
  );
}
