import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { NotFound } from "@/app/pages";
import { SECTIONS, type Section } from "@/app/router";
import { useMe, useTeam } from "@/app/team";
import { useTitle } from "@/app/use-title";
import { cx } from "@/kit/cx";
import { Skeleton } from "@/kit/states";
import { Page } from "./page";

const NAMES: Record<Section, string> = {
  profile: "Profile",
  security: "Security",
  notifications: "Notifications",
  appearance: "Appearance",
  agents: "Agents",
  tokens: "API tokens",
  team: "Team",
  "team-agents": "Team's agents",
  places: "Places",
  metrics: "Metrics",
  about: "About",
};

const VIEWS = {
  profile: lazy(() => import("./settings/profile")),
  security: lazy(() => import("./settings/security")),
  notifications: lazy(() => import("./settings/notifications")),
  appearance: lazy(() => import("./settings/appearance")),
  agents: lazy(() => import("./settings/agents")),
  tokens: lazy(() => import("./settings/tokens")),
  team: lazy(() => import("./settings/team")),
  "team-agents": lazy(() => import("./settings/team-agents")),
  places: lazy(() => import("./settings/places")),
  metrics: lazy(() => import("./settings/metrics")),
  about: lazy(() => import("./settings/about")),
} satisfies Record<Section, unknown>;

const route = getRouteApi("/$team/settings/{-$section}");

export function SettingsScreen() {
  const { section = "profile" } = route.useParams();
  const team = useTeam();
  const me = useMe();
  const shown = SECTIONS.filter((s) => s !== "metrics" || me.user.operator);
  const known = shown.find((s) => s === section);
  useTitle(known ? NAMES[known] : "Settings");
  if (!known) return <NotFound />;
  const View = VIEWS[known];
  return (
    <Page title="Settings">
      <div className="flex flex-col gap-6 md:flex-row">
        <nav aria-label="Settings" className="flex shrink-0 gap-1 overflow-x-auto md:w-40 md:flex-col">
          {shown.map((s) => (
            <Link
              key={s}
              to="/$team/settings/{-$section}"
              params={{ team: team.slug, section: s }}
              aria-current={s === known ? "page" : undefined}
              className="row-h flex items-center rounded-md px-2.5 whitespace-nowrap text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg"
            >
              {NAMES[s]}
            </Link>
          ))}
        </nav>
        <section aria-label={NAMES[known]} className={cx("min-w-0 flex-1", known !== "metrics" && "max-w-[620px]")}>
          <Suspense fallback={<Skeleton />}>
            <View />
          </Suspense>
        </section>
      </div>
    </Page>
  );
}
