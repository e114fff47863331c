import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";

export type Role = Schemas["Role"];

/** The roles, strongest first, and what each may do. */
export const ROLES: readonly (readonly [Role, string])[] = [
  ["owner", t`Owner: full access, including team ownership`],
  ["admin", t`Admin: members, projects, secrets and the audit log`],
  ["member", t`Member: workspaces and sessions`],
  ["viewer", t`Viewer: read-only`],
];

export const ROLE_NAMES: Record<Role, string> = {
  owner: t`owner`,
  admin: t`admin`,
  member: t`member`,
  viewer: t`viewer`,
};

/** The roles a user with a role may grant: only owners can make owners. */
export function rolesToGive(mine: Role): Role[] {
  return ROLES.map(([r]) => r).filter((r) => r !== "owner" || mine === "owner");
}

/** Who joins with a role, for sentences: "as an admin". */
export function asRole(role: Role): string {
  switch (role) {
    case "owner":
      return t`as an owner`;
    case "admin":
      return t`as an admin`;
    case "member":
      return t`as a member`;
    case "viewer":
      return t`as a viewer`;
  }
}

const SENTENCES: Record<string, string> = {
  "user.sign_in": t`signed in`,
  "user.sign_in_begun": t`entered the correct password and was asked for a second factor`,
  "user.sign_out": t`signed out`,
  "user.confirm": t`confirmed their identity`,
  "session.attach": t`opened the terminal of the session`,
  "browser.take_over": t`took over the browser`,
  "browser.give_back": t`no longer has control of the browser`,
  "desktop.take_over": t`took over the desktop`,
  "desktop.give_back": t`no longer has control of the desktop`,
  "login_session.end": t`ended a login session`,
  "login_session.end_others": t`ended all other login sessions`,
  "reset_link.create": t`created a password reset link`,
  "instance.key_rotated": t`changed the server's secret key`,
  "instance.leftovers_adopted": t`restored lost database records`,
  "workspace.adopted": t`restored a workspace missing from the database`,
  "audit.key_lost": t`restarted this audit log after the server's secret key was lost`,
  "watch_link.open": t`opened a share link`,
  "instance.set_up": t`set up the server`,
  "password.change": t`changed their password`,
  "session.input": t`typed into the session`,
  "workspace.fall_back": t`moved the workspace to this server`,
  "audit.export": t`exported the audit log`,
  "audit.dropped": t`deleted old entries`,
  "audit.not_recorded": t`did not record every refusal`,
  "audit.lost": t`lost entries because storage was full`,
  "invite.accept": t`joined with an invite`,
  "invite.create": t`invited someone`,
  "invite.decline": t`declined an invite`,
  "factors.reset": t`reset second factors`,
};

/** What was done, around the name of what it was done to. */
const DONE: Record<string, (what: string) => string> = {
  add: (what) => t`added ${what}`,
  answer: (what) => t`answered ${what}`,
  cancel: (what) => t`cancelled ${what}`,
  change: (what) => t`changed ${what}`,
  commit: (what) => t`committed in ${what}`,
  create: (what) => t`made ${what}`,
  delete: (what) => t`deleted ${what}`,
  deliver: (what) => t`delivered ${what}`,
  destroy: (what) => t`ended ${what}`,
  disallow: (what) => t`disallowed ${what}`,
  empty: (what) => t`emptied ${what}`,
  enrol: (what) => t`connected ${what}`,
  exec: (what) => t`ran ${what}`,
  keep: (what) => t`kept ${what}`,
  merge: (what) => t`merged ${what}`,
  pause: (what) => t`paused ${what}`,
  remove: (what) => t`removed ${what}`,
  reset: (what) => t`reset ${what}`,
  restore: (what) => t`restored ${what}`,
  resume: (what) => t`resumed ${what}`,
  retry: (what) => t`retried ${what}`,
  revoke: (what) => t`withdrew ${what}`,
  send: (what) => t`sent ${what}`,
  set: (what) => t`set ${what}`,
  settle: (what) => t`settled ${what}`,
  stop: (what) => t`stopped ${what}`,
  suspend: (what) => t`suspended ${what}`,
  sync: (what) => t`checked for changes in ${what}`,
  test: (what) => t`tested ${what}`,
  update: (what) => t`changed ${what}`,
  wake: (what) => t`woke ${what}`,
  write: (what) => t`wrote ${what}`,
};

const NOUNS: Record<string, string> = {
  me: t`their account`,
  totp: t`authenticator app`,
  api_token: t`API token`,
  exec: t`command`,
  agent_account: t`agent account`,
  artifact: t`artifact`,
  automation: t`automation`,
  branch: t`branch`,
  budget: t`budget`,
  image: t`image`,
  invite: t`invite`,
  job: t`job`,
  machine: t`machine`,
  member: ROLE_NAMES.member,
  passkey: t`passkey`,
  place: t`place`,
  plan: t`plan`,
  port: t`port`,
  project: t`project`,
  prompt: t`prompt`,
  pull_request: t`pull request`,
  question: t`question`,
  quotas: t`quotas`,
  run: t`run`,
  sandbox: t`sandbox`,
  secret: t`secret`,
  session: t`session`,
  skill: t`skill`,
  snapshot: t`snapshot`,
  task: t`task`,
  team: t`team`,
  token: t`token`,
  user: t`user`,
  webhook: t`webhook`,
  workspace: t`workspace`,
};

/** The action as the rest of a sentence that starts with the actor: "deleted workspace". */
export function actionWords(action: string, data: Record<string, string> = {}): string {
  if (action === "member.remove" && data.left) return t`left the team:`;
  const sentence = SENTENCES[action];
  if (sentence) return sentence;
  const [noun = "", verb = ""] = action.split(".");
  if (!verb) return noun.replaceAll("_", " ");
  const what = NOUNS[noun] ?? noun.replaceAll("_", " ");
  return DONE[verb]?.(what) ?? `${verb.replaceAll("_", " ")} ${what}`;
}

const ACTORS: Record<string, string> = {
  nobody: t`Not signed in`,
  link: t`Share link visitor`,
  command_line: t`Command line`,
  system: "Parawork",
};

/** Who did it, for people. */
export function actorWords(actor: Schemas["AuditParty"]): string {
  if (actor.kind === "command_line") return actor.name ? t`${actor.name}, on the command line` : t`Command line`;
  return actor.name || ACTORS[actor.kind] || actor.id || t`Somebody`;
}

/** The beginning (or, with `after`, the end) of a day that a date field names, in ms; undefined when it names none. */
export function dayOf(value: string, after = false): number | undefined {
  const m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(value);
  if (!m) return undefined;
  return new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + (after ? 1 : 0)).getTime();
}
