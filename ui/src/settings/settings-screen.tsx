import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { cx } from "@/kit/cx";
import { Page } from "@/kit/page";
import { NotFound } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { LeaveGuard } from "@/kit/settings/leave-guard";
import { Skeleton } from "@/kit/states";
import { useNamedPart } from "@/kit/use-named-part";
import { useMe, useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { SECTIONS, type Section } from "./sections";

const NAMES: Record<Section, string> = {
  profile: "Profile",
  security: "Security",
  notifications: "Notifications",
  appearance: "Appearance",
  agents: "Agents",
  tokens: "API tokens",
  secrets: "Secrets",
  members: "Members",
  team: "Team",
  disk: "Disk",
  "team-agents": "Team's agents",
  "team-secrets": "Team's secrets",
  skills: "Skills",
  budget: "Budget",
  quotas: "Quotas",
  links: "Shared links",
  places: "Places",
  models: "Models",
  billing: "Billing",
  audit: "Audit",
  users: "Users",
  teams: "Teams",
  "server-audit": "Server's audit",
  "server-usage": "Server's usage",
  plans: "Plans",
  prices: "Prices",
  payments: "Payments",
  metrics: "Metrics",
  gateway: "Gateway",
  about: "About",
};

const VIEWS = {
  profile: lazy(() => import("./profile")),
  security: lazy(() => import("./security")),
  notifications: lazy(() => import("./notifications")),
  appearance: lazy(() => import("./appearance")),
  agents: lazy(() => import("./agents")),
  tokens: lazy(() => import("./tokens")),
  secrets: lazy(() => import("./secrets")),
  members: lazy(() => import("./members")),
  team: lazy(() => import("./team")),
  disk: lazy(() => import("./disk")),
  "team-agents": lazy(() => import("./team-agents")),
  "team-secrets": lazy(() => import("./team-secrets")),
  skills: lazy(() => import("./skills")),
  budget: lazy(() => import("./budget")),
  quotas: lazy(() => import("./quotas")),
  links: lazy(() => import("./links")),
  places: lazy(() => import("./places")),
  models: lazy(() => import("./models")),
  billing: lazy(() => import("./billing")),
  audit: lazy(() => import("./audit")),
  users: lazy(() => import("./users")),
  teams: lazy(() => import("./teams")),
  "server-audit": lazy(() => import("./server-audit")),
  "server-usage": lazy(() => import("./server-usage")),
  plans: lazy(() => import("./plans")),
  prices: lazy(() => import("./prices")),
  payments: lazy(() => import("./payments")),
  metrics: lazy(() => import("./metrics")),
  gateway: lazy(() => import("./gateway")),
  about: lazy(() => import("./about")),
} satisfies Record<Section, unknown>;

/** The groups of sections, each with the first section of it. */
const GROUPS: readonly (readonly [string, Section])[] = [
  ["You", "profile"],
  ["Team", "members"],
  ["Server", "users"],
];

/** The group that a section belongs to, by its place in the list. */
function groupOf(section: Section): string {
  const at = SECTIONS.indexOf(section);
  return GROUPS.findLast(([, first]) => SECTIONS.indexOf(first) <= at)?.[0] ?? "";
}

/** Sections of the whole server: for operators. */
const SERVER: readonly Section[] = [
  "users",
  "teams",
  "server-audit",
  "server-usage",
  "plans",
  "prices",
  "payments",
  "metrics",
  "gateway",
];

/** Sections that need more room. */
const WIDE: readonly Section[] = [
  "payments",
  "metrics",
  "gateway",
  "models",
  "audit",
  "server-audit",
  "users",
  "teams",
  "quotas",
  "server-usage",
  "plans",
  "prices",
];

const route = getRouteApi("/$team/settings/{-$section}");

/** On a phone the sections are a strip that scrolls: the one that is open is shown in it. Nothing else moves: the page begins at its top. */
function inView(link: HTMLAnchorElement | null) {
  const strip = link?.closest("nav");
  if (!link || !strip) return;
  for (let box: Element | null = link.parentElement; box && box !== strip.parentElement; box = box.parentElement) {
    if (box.scrollWidth <= box.clientWidth) continue;
    const from = box.getBoundingClientRect();
    const at = link.getBoundingClientRect();
    box.scrollLeft += at.left - from.left - (from.width - at.width) / 2;
  }
}

/** The parts of sections that links lead to. */
const NAMED_PARTS = ["invitations", "instance-places"];

export function SettingsScreen() {
  const { section = "profile" } = route.useParams();
  const team = useTeam();
  const me = useMe();
  const shown = SECTIONS.filter((s) => {
    if (s === "budget" || s === "quotas") return team.can("costs.view");
    if (s === "links") return team.can("team.manage");
    if (s === "audit") return team.can("audit.read");
    if (s === "billing") return team.can("costs.view");
    return !SERVER.includes(s) || me.user.operator;
  });
  const known = shown.find((s) => s === section);
  useNamedPart(NAMED_PARTS);
  useTitle(known ? NAMES[known] : "Settings");
  if (!known) return <NotFound />;
  const View = VIEWS[known];
  return (
    <Page title="Settings">
      <LeaveGuard />
      <div className="flex flex-col gap-6 md:flex-row">
        <nav aria-label="Settings" className="flex shrink-0 gap-1 overflow-x-auto md:w-40 md:flex-col">
          {GROUPS.map(([group]) => (
            <div key={group} role="group" aria-label={group} className="flex shrink-0 gap-1 md:mb-3 md:flex-col">
              <p aria-hidden className="hidden px-2.5 pb-0.5 text-meta text-fg3 md:block">
                {group}
              </p>
              {shown
                .filter((s) => groupOf(s) === group)
                .map((s) => (
                  <Link
                    key={s}
                    to="/$team/settings/{-$section}"
                    params={{ team: team.slug, section: s }}
                    ref={s === known ? inView : undefined}
                    aria-current={s === known ? "page" : undefined}
                    className="row-h flex items-center rounded-md px-2.5 whitespace-nowrap text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg"
                  >
                    {NAMES[s]}
                  </Link>
                ))}
            </div>
          ))}
        </nav>
        <section aria-label={NAMES[known]} className={cx("min-w-0 flex-1", !WIDE.includes(known) && "max-w-[620px]")}>
          <Suspense fallback={<Skeleton />}>
            <View />
          </Suspense>
        </section>
      </div>
    </Page>
  );
}
