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
  Profile: "Profile",
  Security: "Security",
  Notifications: "Notifications",
  Appearance: "Appearance",
  Agents: "Agents",
  Team: "Team",
  Members: "Members",
  "Team's agents": "Team's agents",
  Places: "Places",
  Costs: "Costs",
  "Users and teams": "Users and teams",
  "Server's costs": "Server's costs",
  Server: "Server",
};

/** Whose settings a page has, as people read it. */
export const PAGE_GROUPS: Record<SettingsPage["group"], string> = { You: "You", Team: "Team", Server: "Server" };

export type Section = SettingsPage["parts"][number];

/** A part's name, and the words by which people look for it beside the name. */
export const PARTS: Record<Section, readonly [name: string, words: string]> = {
  profile: ["Profile", "name e-mail address avatar picture photo invitations account"],
  security: [
    "Security",
    "password second factor 2fa totp passkey recovery codes login sessions sign out single sign-on",
  ],
  tokens: ["API tokens", "personal access token api key cli script oauth applications revoke"],
  notifications: ["Notifications", "push browser mail e-mail sound mute quiet hours alerts"],
  appearance: [
    "Appearance",
    "theme dark light density compact font size terminal colours keys shortcuts screen reader clipboard",
  ],
  agents: ["Agents", "accounts claude code codex login api key model provider anthropic openai subscription"],
  secrets: ["Secrets", "environment variables env own tokens"],
  team: ["Team", "name second factor webhooks permission rules allow deny new team general"],
  disk: ["Disk", "storage space free trash caches snapshots terminals retention"],
  links: ["Shared links", "previews ports artifacts share revoke public"],
  audit: ["Audit", "log history who did what export seal"],
  members: ["Members", "people invite role owner admin viewer remove"],
  "team-agents": ["Agents", "team accounts login api key limits instructions hold stop kill switch"],
  models: ["Models", "allowed models rules deny gateway tokens"],
  "team-secrets": ["Secrets", "team environment variables env tokens"],
  skills: ["Skills", "instructions drafts versions library"],
  places: [
    "Places",
    "executors docker bubblewrap e2b kubernetes runner machine cloud sandbox sizes regions isolation ssh hosts",
  ],
  budget: ["Budget", "money limit month alerts spent overage cap"],
  quotas: ["Quotas", "limits hours workspaces per person cpu memory"],
  billing: ["Billing", "plan subscription invoice card payment stripe"],
  users: ["Users", "accounts suspend operator reset password create"],
  teams: ["Teams", "suspend plan create"],
  "server-usage": ["Usage", "server costs hours all teams instance"],
  plans: ["Plans", "price quota included subscription"],
  prices: ["Prices", "per hour places models tokens margin"],
  payments: ["Payments", "stripe webhook invoices revenue"],
  gateway: ["Gateway", "model gateway requests providers proxy"],
  metrics: ["Metrics", "prometheus load monitoring health sandboxes pool"],
  "server-audit": ["Audit", "server log who did what export"],
  about: ["About", "version licence update documentation"],
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
