import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { Button } from "@/kit/button";
import { useAction } from "@/kit/use-action";
import { newRecoveryCodes, type OwnWays } from "@/signin/calls";
import { ownWaysKey } from "@/signin/queries";
import { CodesToKeep } from "./codes-to-keep";
import { Part } from "./part";

const FEW = 3;

export default function RecoveryCodes({ own, email }: { own: OwnWays; email: string }) {
  const [codes, setCodes] = useState<string[] | undefined>();
  const make = useAction({
    act: newRecoveryCodes,
    confirm: () =>
      own.recovery_codes_left > 0 && {
        title: t`Generate new recovery codes?`,
        body: t`Your current codes stop working.`,
        action: t`Generate new codes`,
        danger: true,
      },
    done: setCodes,
    refresh: [ownWaysKey],
    failed: t`New recovery codes were not generated`,
  });
  return (
    <Part
      title={t`Recovery codes`}
      about={t`For when you lose your phone or passkey. Each works once, after your password.`}
    >
      {codes ? (
        <CodesToKeep codes={codes} email={email} onDone={() => setCodes(undefined)} />
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <span className={own.recovery_codes_left <= FEW ? "text-needs" : ""}>
            {own.recovery_codes_left === 0
              ? t`None left`
              : t`${plural(own.recovery_codes_left, { one: "# code", other: "# codes" })} left`}
          </span>
          <span className="flex-1" />
          <Button busy={make.busy && t`Generating`} onClick={() => void make.run()}>
            <Trans>Generate new codes</Trans>
          </Button>
        </div>
      )}
    </Part>
  );
}
