import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { plansToChoose } from "@/costs/choose-plan";
import { plansQuery } from "@/costs/operator-api";
import { useDefaultPlan } from "@/costs/use-default-plan";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";
import { isBoolean, recall, remember } from "@/state/remember";
import { useMe } from "@/state/team";

const LATER = "choose-plan.later";

/** Asks an operator once to choose a default plan: until then there are no quotas. */
export function ChoosePlan() {
  const me = useMe();
  const [later, setLater] = useState(() => recall(LATER, isBoolean) === true);
  const ask = me.user.operator && !later;
  const plans = useQuery({ ...plansQuery(), enabled: ask, retry: false });
  const choose = useDefaultPlan((list) => {
    const name = list.items.find((p) => p.id === list.default_plan)?.name ?? list.default_plan;
    return t`Teams have the plan ${name}. You can change it under Settings, Plans`;
  });
  const offers = ask ? plansToChoose(plans.data) : [];
  if (offers.length === 0) return null;
  return (
    <section aria-labelledby="choose-plan" className="mb-5 panel p-3">
      <h2 id="choose-plan" className="font-medium">
        <Trans>How much may people use?</Trans>
      </h2>
      <p className="mt-1 max-w-2xl text-fg2">
        <Trans>
          There are no quotas until you choose a plan. Every team without its own plan gets the one you choose. It
          limits each person's hours in paid places and, once several teams share this server, in the server's sandboxes
          as well.
        </Trans>
      </p>
      <FormError error={choose.error} />
      <div className="mt-2 flex flex-wrap gap-2">
        {offers.map((p) => (
          <Button key={p.id} busy={choose.target === p.id} disabled={choose.busy} onClick={() => void choose.run(p.id)}>
            {p.name} · {p.hours}
          </Button>
        ))}
        <Button
          look="quiet"
          title={t`You can also choose in Settings, Plans`}
          onClick={() => {
            remember(LATER, true);
            setLater(true);
          }}
        >
          <Trans>Later</Trans>
        </Button>
      </div>
    </section>
  );
}
