import { t } from "@lingui/core/macro";
/** The pages of the settings, each of parts that addresses name: a page with several shows them as tabs. */
// Not for translation: names and groups are codes here, of which PAGE_NAMES and PAGE_GROUPS have the words.
export const PAGES = [
  { name: "Profile", group: "You", parts: ["profile"] },
  { name: "Security", group: "You", parts: ["security", "tokens"] },
  { name: "Notifications", group: "You", parts: ["notifications"] },
  { name: "Appearance", group: "You", parts: ["appearance"] },
  { name: "Agents", group: "You", parts: ["agents", "secrets"] },
  { name: "Team", group: "Team", parts: ["team", "disk", "links", "audit"] },
  { name: "Members", group: "Team", parts: ["members"] },
  { name: "Team's agents", group: "Team", parts: ["team-agents", "models", "team-secrets", "skills"] },
  { name: "Places", group: "Team", parts: ["places"] },
  { name: "Costs", group: "Team", parts: ["budget", "quotas", "billing"] },
  { name: "Users and teams", group: "Server", parts: ["users", "teams"] },
  { name: "Server's costs", group: "Server", parts: ["server-usage", "plans", "prices", "payments"] },
  { name: "Server", group: "Server", parts: ["gateway", "metrics", "server-audit", "about"] },
] as const;

export type SettingsPage = (typeof PAGES)[number];
/** The pages as people read them. */
export const PAGE_NAMES: Record<SettingsPage["name"], string> = {
  Profile: t`Profile`,
  Security: t`Security`,
  Notifications: t`Notifications`,
  Appearance: t`Appearance`,
  Agents: t`Agents`,
  Team: t`Team`,
  Members: t`Members`,
  "Team's agents": t`Team's agents`,
  Places: t`Places`,
  Costs: t`Costs`,
  "Users and teams": t`Users and teams`,
  "Server's costs": t`Server's costs`,
  Server: t`Server`,
};

/** Whose settings a page has, as people read it. */
export const PAGE_GROUPS: Record<SettingsPage["group"], string> = { You: t`You`, Team: t`Team`, Server: t`Server` };

export type Section = SettingsPage["parts"][number];

/** A part's name, and the words by which people look for it beside the name. */
export const PARTS: Record<Section, readonly [name: string, words: string]> = {
  profile: [t`Profile`, "name e-mail address avatar picture photo invitations account"],
  security: [
    t`Security`,
    t`password second factor 2fa totp passkey recovery codes login sessions sign out single sign-on`,
  ],
  tokens: [t`API tokens`, "personal access token api key cli script oauth applications revoke"],
  notifications: [t`Notifications`, "push browser mail e-mail sound mute quiet hours alerts"],
  appearance: [
    t`Appearance`,
    "theme dark light density compact font size terminal colours language german english keys shortcuts screen reader clipboard",
  ],
  agents: [t`Agents`, "accounts claude code codex login api key model provider anthropic openai subscription"],
  secrets: [t`Secrets`, "environment variables env own tokens"],
  team: [t`Team`, "name second factor webhooks permission rules allow deny new team general"],
  disk: [t`Disk`, "storage space free trash caches snapshots terminals retention"],
  links: [t`Shared links`, "previews ports artifacts share revoke public"],
  audit: [t`Audit`, t`log history who did what export seal`],
  members: [t`Members`, "people invite role owner admin viewer remove"],
  "team-agents": [t`Agents`, "team accounts login api key limits instructions hold stop kill switch"],
  models: [t`Models`, "allowed models rules deny gateway tokens"],
  "team-secrets": [t`Secrets`, "team environment variables env tokens"],
  skills: [t`Skills`, "instructions drafts versions library"],
  places: [
    t`Places`,
    "executors docker bubblewrap e2b kubernetes runner machine cloud sandbox sizes regions isolation ssh hosts",
  ],
  budget: [t`Budget`, "money limit month alerts spent overage cap"],
  quotas: [t`Quotas`, "limits hours workspaces per person cpu memory"],
  billing: [t`Billing`, "plan subscription invoice card payment stripe"],
  users: [t`Users`, "accounts suspend operator reset password create"],
  teams: [t`Teams`, "suspend plan create"],
  "server-usage": [t`Usage`, t`server costs hours all teams instance`],
  plans: [t`Plans`, "price quota included subscription"],
  prices: [t`Prices`, "per hour places models tokens margin"],
  payments: [t`Payments`, "stripe webhook invoices revenue"],
  gateway: [t`Gateway`, "model gateway requests providers proxy"],
  metrics: [t`Metrics`, "prometheus load monitoring health sandboxes pool"],
  "server-audit": [t`Audit`, t`server log who did what export`],
  about: [t`About`, "version licence update documentation"],
};

/** The page that has a part; undefined where no part has that name. */
export function pageOf(part: string): SettingsPage | undefined {
  return PAGES.find((p) => (p.parts as readonly string[]).includes(part));
}

/** The parts of pages in which each typed word occurs, those whose name has the first one before the others. */
export function findParts(typed: string, shown: readonly Section[]): Section[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const all = shown.filter((s) => {
    const page = pageOf(s);
    const text =
      `${page && PAGE_NAMES[page.name]} ${page && PAGE_GROUPS[page.group]} ${PARTS[s].join(" ")}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  const named = (s: Section) => PARTS[s][0].toLowerCase().includes(words[0] ?? "");
  return [...all.filter(named), ...all.filter((s) => !named(s))];
}
