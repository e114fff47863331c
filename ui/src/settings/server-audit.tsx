import { AuditLog } from "@/people/audit-log";

/** Who did what on the server, outside teams. */
export default function ServerAuditSettings() {
  return (
    <AuditLog
      title="Audit log of the server"
      about="Sign-ins, users' own accounts, user management, server settings, and attempts by outsiders. Each team has its own audit log."
    />
  );
}
