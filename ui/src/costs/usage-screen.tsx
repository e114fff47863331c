import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { buttonClass } from "@/kit/button";
import { Page } from "@/kit/page";
import { NotFound } from "@/kit/pages";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { budgetQuery } from "./api";
import { UsageView } from "./usage-view";

const route = getRouteApi("/$team/usage");

/** What the team's sandboxes and models cost. */
export function UsageScreen() {
  const team = useTeam();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const may = team.can("costs.view");
  const budget = useQuery({ ...budgetQuery(team.slug), enabled: may });
  useTitle(t`Usage`);
  if (!may) return <NotFound />;
  return (
    <Page
      title={t`Usage`}
      about={t`What sandboxes and models cost in ${team.name}.`}
      actions={
        <Link
          to="/$team/settings/{-$section}"
          params={{ team: team.slug, section: "budget" }}
          className={buttonClass("plain")}
        >
          {team.can("quotas.manage") ? t`Budget` : t`See the budget`}
        </Link>
      }
    >
      <UsageView
        whose={{ team: team.slug }}
        search={search}
        onSearch={(s) => void navigate({ search: (old) => ({ new: old.new, add: old.add, ...s }) })}
        budget={budget.data}
      />
    </Page>
  );
}
