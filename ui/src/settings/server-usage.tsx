import { Trans } from "@lingui/react/macro";
import { getRouteApi } from "@tanstack/react-router";
import { UsageView } from "@/costs/usage-view";
import { KillSwitchPart } from "./kill-switch";

const route = getRouteApi("/$team/settings/{-$section}");

/** What everything on this server costs, over all teams, and the switch that stops it. For operators. */
export default function ServerUsageSettings() {
  const { month, day, by, exact } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <div className="flex flex-col gap-7">
      <KillSwitchPart />
      <section aria-labelledby="server-usage">
        <h2 id="server-usage" className="mb-3 text-title font-semibold">
          <Trans>Usage of all teams</Trans>
        </h2>
        <UsageView
          whose={{ instance: true }}
          search={{ month, day, by, exact }}
          onSearch={(s) => void navigate({ search: (old) => ({ new: old.new, add: old.add, ...s }) })}
        />
      </section>
    </div>
  );
}
