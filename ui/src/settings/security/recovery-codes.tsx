import { useState } from "react";
import { plural } from "@/format/text";
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
        title: "Generate new recovery codes?",
        body: "Your current codes stop working.",
        action: "Generate new codes",
        danger: true,
      },
    done: setCodes,
    refresh: [ownWaysKey],
    failed: "New recovery codes were not generated",
  });
  return (
    <Part title="Recovery codes" about="For when you lose your phone or passkey. Each works once, after your password.">
      {codes ? (
        <CodesToKeep codes={codes} email={email} onDone={() => setCodes(undefined)} />
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <span className={own.recovery_codes_left <= FEW ? "text-needs" : ""}>
            {own.recovery_codes_left === 0 ? "None left" : `${plural(own.recovery_codes_left, "code")} left`}
          </span>
          <span className="flex-1" />
          <Button busy={make.busy && "Generating"} onClick={() => void make.run()}>
            Generate new codes
          </Button>
        </div>
      )}
    </Part>
  );
}
