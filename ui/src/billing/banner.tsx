import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTeam } from "@/state/team";
import { billingQuery } from "./api";
import { owing } from "./words";

/** Shows above every page of the team that a payment is due and how long the plan lasts. */
export default function PaymentBanner() {
  const team = useTeam();
  const { data } = useQuery({ ...billingQuery(team.slug), refetchInterval: 60 * 60_000 });
  const due = data && owing(data);
  if (!due) return null;
  return (
    <section
      aria-label={t`Payment`}
      className="flex flex-wrap items-baseline gap-x-3 gap-y-1 border-b border-failed bg-bg1 px-3 py-1.5"
    >
      <p className="min-w-0">
        <span aria-hidden className="mr-2 text-failed">
          ▲
        </span>
        <strong className="font-semibold">{due.title}.</strong> <span className="text-fg2">{due.text}</span>
      </p>
      <Link
        to="/$team/settings/{-$section}"
        params={{ team: team.slug, section: "billing" }}
        className="text-accent underline"
      >
        <Trans>Billing</Trans>
      </Link>
    </section>
  );
}
