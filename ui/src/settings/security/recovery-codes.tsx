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
        title: "Make new recovery codes?",
        body: "The ones you have stop working.",
        action: "Make new ones",
        danger: true,
      },
    done: setCodes,
    refresh: [ownWaysKey],
    failed: "No new recovery codes were made",
  });
  return (
    <Part
      title="Recovery codes"
      about="For when the phone or the passkey is lost: each works once, after your password."
    >
      {codes ? (
        <CodesToKeep codes={codes} email={email} onDone={() => setCodes(undefined)} />
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <span className={own.recovery_codes_left <= FEW ? "text-needs" : ""}>
            {own.recovery_codes_left === 0 ? "None left" : `${plural(own.recovery_codes_left, "code")} left`}
          </span>
          <span className="flex-1" />
          <Button busy={make.busy && "Making"} onClick={() => void make.run()}>
            Make new ones
          </Button>
        </div>
      )}
    </Part>
  );
}
