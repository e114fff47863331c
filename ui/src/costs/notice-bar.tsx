import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/kit/button";
import { useMe, useTeam } from "@/state/team";
import { budgetQuery, mineQuery } from "./api";
import { dismiss, dismissed, noticesOf } from "./notice";

/** Shows above every page of the team that its budget, or the user's hours, passed a threshold, until dismissed. */
export default function LimitNotice() {
  const team = useTeam();
  const me = useMe();
  const budget = useQuery({ ...budgetQuery(team.slug), refetchInterval: 5 * 60_000 });
  const mine = useQuery({ ...mineQuery(), refetchInterval: 5 * 60_000 });
  const [dismissedIds, setDismissedIds] = useState(() => dismissed(me.user.id));
  const notice = noticesOf(
    budget.data,
    mine.data?.find((m) => m.team.id === team.id),
  ).find((n) => !dismissedIds.includes(n.id));
  if (!notice) return null;
  return (
    <section
      aria-label={t`Used this month`}
      data-notice={notice.id}
      className={`flex flex-wrap items-center gap-x-3 gap-y-1 border-b bg-bg1 px-3 py-1 ${notice.grave ? "border-failed" : "border-hairline"}`}
    >
      <p role="status" className="min-w-0 flex-1 basis-64">
        <span aria-hidden className={`mr-2 ${notice.grave ? "text-failed" : "text-needs"}`}>
          ▲
        </span>
        {notice.text}
      </p>
      <Link
        to="/$team/settings/{-$section}"
        params={{ team: team.slug, section: notice.section }}
        className="text-accent underline"
      >
        {notice.section === "budget" ? t`Budget` : t`Usage`}
      </Link>
      <Button look="quiet" onClick={() => setDismissedIds(dismiss(me.user.id, notice.id))}>
        <Trans>Dismiss</Trans>
      </Button>
    </section>
  );
}
