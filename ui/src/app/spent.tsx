import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { budgetQuery } from "@/costs/api";
import { budgetStatus, headerWords } from "@/costs/words";
import { cx } from "@/kit/cx";
import { useTeam } from "@/state/team";

/** What the team spent this month, in the header; nothing while it has spent nothing and has no budget. */
export default function Spent() {
  const team = useTeam();
  const budget = useQuery({ ...budgetQuery(team.slug), refetchInterval: 60_000, retry: false });
  const b = budget.data;
  if (!b || (b.limit_nano === null && b.status.spent_nano === 0)) return null;
  const { state } = b.status;
  const color = state === "stopped" || state === "grace" ? "text-failed" : state === "ok" ? "text-fg2" : "text-needs";
  return (
    <Link
      to="/$team/usage"
      params={{ team: team.slug }}
      title={b.limit_nano === null ? undefined : budgetStatus(b.status).word}
      className={cx(
        "hidden min-h-6 items-center rounded-sm px-1.5 whitespace-nowrap tabular-nums hover:text-fg lg:flex",
        color,
      )}
    >
      {state !== "ok" && <span aria-hidden>{state === "stopped" || state === "grace" ? "▲" : "◆"}&nbsp;</span>}
      <Trans>{headerWords(b)} this month</Trans>
    </Link>
  );
}
