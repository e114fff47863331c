import { AuditLog } from "@/people/audit-log";

/** Who did what on the server, outside teams. */
export default function ServerAuditSettings() {
  return (
    <AuditLog
      title="Audit of the server"
      about="Signing in, people's own accounts, users, the server's settings, and what outsiders tried. Each team has its own audit."
    />
  );
}
