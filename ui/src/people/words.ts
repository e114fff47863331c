import type { Schemas } from "@/api/client";

export type Role = Schemas["Role"];

/** The roles, strongest first, and what each may do. */
export const ROLES: readonly (readonly [Role, string])[] = [
  ["owner", "Owner: everything, and who owns the team"],
  ["admin", "Admin: members, projects, secrets and the audit"],
  ["member", "Member: workspaces and sessions"],
  ["viewer", "Viewer: watches only"],
];

/** The roles that somebody with a role may give: only owners make owners. */
export function rolesToGive(mine: Role): Role[] {
  return ROLES.map(([r]) => r).filter((r) => r !== "owner" || mine === "owner");
}

/** Who joins with a role, for sentences: "as an admin". */
export function asRole(role: Role): string {
  return role === "owner" || role === "admin" ? `as an ${role}` : `as a ${role}`;
}

const SENTENCES: Record<string, string> = {
  "user.sign_in": "signed in",
  "user.sign_in_begun": "gave the right password and was asked for a second step",
  "user.sign_out": "signed out",
  "user.confirm": "confirmed who they are",
  "session.attach": "opened the terminal of the session",
  "login_session.end": "ended a login session",
  "login_session.end_others": "ended all other login sessions",
  "reset_link.create": "made a link to choose a password",
  "instance.key_rotated": "changed the server's secret key",
  "instance.leftovers_adopted": "brought back what the database had lost",
  "workspace.adopted": "brought back a workspace the database had lost",
  "audit.key_lost": "began this audit anew after the server's secret key was lost",
  "watch_link.open": "opened a link to watch",
  "instance.set_up": "set the server up",
  "password.change": "changed their password",
  "session.input": "typed into the session",
  "workspace.fall_back": "moved the workspace to this server",
  "audit.export": "exported the audit",
  "audit.dropped": "dropped entries for their age",
  "audit.not_recorded": "did not record every refusal",
  "audit.lost": "lost entries that there was no room for",
  "invite.accept": "joined by an invite",
  "invite.create": "invited somebody",
  "invite.decline": "declined an invite",
  "factors.reset": "reset the second factors",
};

const PAST: Record<string, string> = {
  add: "added",
  answer: "answered",
  cancel: "cancelled",
  change: "changed",
  commit: "committed in",
  create: "made",
  delete: "deleted",
  deliver: "delivered",
  destroy: "ended",
  disallow: "disallowed",
  empty: "emptied",
  enrol: "connected",
  exec: "ran",
  keep: "kept",
  merge: "merged",
  pause: "paused",
  remove: "removed",
  reset: "reset",
  restore: "restored",
  resume: "resumed",
  retry: "tried again",
  revoke: "took back",
  send: "sent",
  set: "set",
  settle: "settled",
  stop: "stopped",
  suspend: "suspended",
  sync: "looked for changes in",
  test: "tested",
  update: "changed",
  wake: "woke",
  write: "wrote",
};

const NOUNS: Record<string, string> = {
  me: "their account",
  totp: "authenticator app",
  api_token: "API token",
  exec: "command",
};

/** What was done, as the rest of a sentence that begins with who did it: "deleted workspace". */
export function actionWords(action: string, data: Record<string, string> = {}): string {
  if (action === "member.remove" && data.left) return "left the team:";
  const sentence = SENTENCES[action];
  if (sentence) return sentence;
  const [noun = "", verb = ""] = action.split(".");
  if (!verb) return noun.replaceAll("_", " ");
  const words = verb.replaceAll("_", " ");
  return `${PAST[verb] ?? words} ${NOUNS[noun] ?? noun.replaceAll("_", " ")}`;
}

const ACTORS: Record<string, string> = {
  nobody: "Somebody not signed in",
  link: "Somebody with a link",
  command_line: "Command line",
  system: "Parawork",
};

/** Who did it, for people. */
export function actorWords(actor: Schemas["AuditParty"]): string {
  if (actor.kind === "command_line") return actor.name ? `${actor.name}, on the command line` : "Command line";
  return actor.name || ACTORS[actor.kind] || actor.id || "Somebody";
}

/** The beginning (or, with `after`, the end) of a day that a date field names, in ms; undefined when it names none. */
export function dayOf(value: string, after = false): number | undefined {
  const m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(value);
  if (!m) return undefined;
  return new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + (after ? 1 : 0)).getTime();
}
