import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { tell } from "@/api/problem";
import { quotasQuery } from "@/costs/api";
import { type Plan, setTeamPlan, teamPlanQuery } from "@/costs/operator-api";
import { usePlansRefresh } from "@/costs/use-refresh";
import { cx } from "@/kit/cx";
import { Field, inputClass } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { instanceTeamsQuery } from "@/people/api";
import { QuotaGrid } from "./quota-grid";

/** The plan and the quotas of one team, chosen from all. */
export function TeamsPlans({ plans }: { plans: Plan[] }) {
  const teams = useQuery(instanceTeamsQuery());
  const [chosen, setChosen] = useState("");
  const id = chosen || teams.data?.[0]?.id || "";
  return (
    <section aria-labelledby="team-plan" className="flex flex-col gap-3">
      <div>
        <h2 id="team-plan" className="text-title font-semibold">
          <Trans>One team</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>Its plan, and what its members may use. You can grant more than the plan.</Trans>
        </p>
      </div>
      {teams.isPending ? (
        <Skeleton rows={2} label={t`Loading the teams`} />
      ) : !teams.data ? (
        <Failure what={t`The teams could not be loaded.`} error={teams.error} retry={() => void teams.refetch()} />
      ) : (
        <>
          <select
            aria-label={t`Team`}
            value={id}
            onChange={(e) => setChosen(e.target.value)}
            className={cx(inputClass, "max-w-md")}
          >
            {teams.data.map((t) => (
              <option key={t.id} value={t.id}>
                {t.name} /{t.slug}
              </option>
            ))}
          </select>
          {id && <TeamPlanPart key={id} id={id} plans={plans} />}
        </>
      )}
    </section>
  );
}

function TeamPlanPart({ id, plans }: { id: string; plans: Plan[] }) {
  const refresh = usePlansRefresh();
  const of = { teamId: id };
  const plan = useQuery(teamPlanQuery(id));
  const quotas = useQuery(quotasQuery(of));
  const change = useAction({ act: (p: string) => setTeamPlan(id, p || null), done: refresh });
  if (plan.isPending || quotas.isPending) return <Skeleton rows={3} label={t`Loading the team's plan`} />;
  if (!plan.data || !quotas.data)
    return (
      <Failure
        what={t`The team's plan could not be loaded.`}
        error={plan.error ?? quotas.error}
        retry={() => void Promise.all([plan.refetch(), quotas.refetch()])}
      />
    );
  const p = plan.data;
  const paid = plans.find((x) => x.id === p.paid_plan_id);
  return (
    <>
      <Field
        label={t`Plan`}
        className="max-w-md"
        hint={
          p.source === "operator"
            ? paid
              ? t`Set by an operator. The team pays for ${paid.name}.`
              : t`Set by an operator.`
            : p.source === "stripe"
              ? t`The team pays for this plan.`
              : t`It has the default plan.`
        }
        error={change.error ? tell(change.error).message : undefined}
      >
        {(ids) => (
          <select
            {...ids}
            value={p.source === "operator" ? p.plan.id : ""}
            disabled={change.busy}
            onChange={(e) => void change.run(e.target.value)}
            className={inputClass}
          >
            <option value="">{paid ? t`What it pays for (${paid.name})` : t`The default plan`}</option>
            {plans.map((x) => (
              <option key={x.id} value={x.id}>
                {x.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <QuotaGrid list={quotas.data} of={of} may />
    </>
  );
}
