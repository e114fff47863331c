import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { quotasQuery } from "@/costs/api";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { QuotaGrid } from "./quota-grid";

/** What each of the team may use of places that cost. */
export default function QuotasSettings() {
  const team = useTeam();
  const of = { team: team.slug };
  const quotas = useQuery({ ...quotasQuery(of), refetchInterval: 60_000 });
  if (quotas.isPending) return <Skeleton rows={6} label={t`Loading the quotas`} />;
  if (quotas.isError && !quotas.data)
    return (
      <Failure what={t`The quotas could not be loaded.`} error={quotas.error} retry={() => void quotas.refetch()} />
    );
  const { plan } = quotas.data;
  const may = team.can("quotas.manage");
  return (
    <section aria-labelledby="quotas" className="flex flex-col gap-3">
      <div>
        <h2 id="quotas" className="text-title font-semibold">
          <Trans>Quotas</Trans>
        </h2>
        <p className="max-w-2xl text-fg2">
          <Trans>
            What each person may use of paid places.{" "}
            {may
              ? t`An empty cell follows the plan, ${plan.name}, whose value is shown in grey. Your own values cannot exceed it.`
              : t`Without a value of their own, people follow the plan, ${plan.name}.`}{" "}
            Quotas never stop work on your own machines or on this server.
          </Trans>
        </p>
      </div>
      <QuotaGrid list={quotas.data} of={of} may={may} />
    </section>
  );
}
