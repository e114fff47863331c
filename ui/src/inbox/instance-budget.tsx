import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { Button, buttonClass } from "@/kit/button";
import { isString, recall, remember } from "@/state/remember";
import { useMe, useTeam } from "@/state/team";

const DISMISSED = "instance-budget.away";

/** Tells an operator that the server's budget is nearly or wholly spent, until they dismiss the notice of that threshold. */
export function InstanceBudget() {
  const me = useMe();
  const team = useTeam();
  const [dismissed, setDismissed] = useState(() => recall(DISMISSED, isString));
  const notice = useQuery({
    queryKey: [...keys.inbox(team.slug), "instance-budget"],
    queryFn: async () =>
      (await data(api.GET("/teams/{team}/inbox", { params: { path: { team: team.slug } } }))).instance_budget ?? null,
    enabled: me.user.operator,
    refetchInterval: 5 * 60_000,
    retry: false,
  }).data;
  if (!notice || notice.id === dismissed) return null;
  return (
    <section aria-labelledby="instance-budget" className="mb-5 panel p-3">
      <h2 id="instance-budget" className="font-medium">
        {notice.percent >= 100
          ? t`This server has used its budget for this month`
          : t`This server has used ${notice.percent}\u00a0% of its budget for this month`}
      </h2>
      <p className="mt-1 max-w-2xl text-fg2">{notice.text}</p>
      <div className="mt-2 flex flex-wrap gap-2">
        <Link
          to="/$team/settings/{-$section}"
          params={{ team: team.slug, section: "places" }}
          hash="instance-places"
          className={buttonClass("plain")}
        >
          <Trans>Change the budget</Trans>
        </Link>
        <Button
          look="quiet"
          onClick={() => {
            remember(DISMISSED, notice.id);
            setDismissed(notice.id);
          }}
        >
          <Trans>Dismiss</Trans>
        </Button>
      </div>
    </section>
  );
}
