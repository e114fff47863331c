import { t } from "@lingui/core/macro";
import { getRouteApi } from "@tanstack/react-router";
import { Suspense } from "react";
import { cx } from "@/kit/cx";
import { Page } from "@/kit/page";
import { NotFound } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { LeaveGuard } from "@/kit/settings/leave-guard";
import { Skeleton } from "@/kit/states";
import { useNamedPart } from "@/kit/use-named-part";
import { useTitle } from "@/state/use-title";
import { PartTabs, SettingsNav, useShownParts } from "./nav";
import { PARTS, pageOf, type Section } from "./sections";

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

/** Parts that need more room than a form. */
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

/** Parts of settings that links lead to. */
const NAMED_PARTS = ["invitations", "instance-places"];

export function SettingsScreen() {
  const { section = "profile" } = route.useParams();
  const shown = useShownParts();
  const known = shown.find((s) => s === section);
  const page = known && pageOf(known);
  useNamedPart(NAMED_PARTS);
  useTitle(known ? PARTS[known][0] : t`Settings`);
  if (!known || !page) return <NotFound />;
  const View = VIEWS[known];
  return (
    <Page title={t`Settings`}>
      <LeaveGuard />
      <div className="flex flex-col gap-6 md:flex-row">
        <SettingsNav shown={shown} current={known} />
        <section aria-label={PARTS[known][0]} className={cx("min-w-0 flex-1", !WIDE.includes(known) && "max-w-form")}>
          <PartTabs page={page} shown={shown} current={known} />
          <Suspense fallback={<Skeleton />}>
            <View />
          </Suspense>
        </section>
      </div>
    </Page>
  );
}
