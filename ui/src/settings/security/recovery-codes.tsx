import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { plural } from "@/format/text";
import { Button } from "@/kit/button";
import { newRecoveryCodes, type OwnWays } from "@/signin/calls";
import { ownWaysKey } from "@/signin/queries";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";
import { CodesToKeep } from "./codes-to-keep";
import { Part } from "./part";

const FEW = 3;

export default function RecoveryCodes({ own, email }: { own: OwnWays; email: string }) {
  const client = useQueryClient();
  const [codes, setCodes] = useState<string[] | undefined>();
  const make = useMutation({
    mutationFn: newRecoveryCodes,
    onSuccess: (made) => {
      setCodes(made);
      void client.invalidateQueries({ queryKey: ownWaysKey });
    },
    onError: (error) => toastError("No new recovery codes were made", error),
  });
  const ask = async () => {
    const yes =
      own.recovery_codes_left === 0 ||
      (await confirm({
        title: "Make new recovery codes?",
        body: "The ones you have stop working.",
        action: "Make new ones",
        danger: true,
      }));
    if (yes) make.mutate();
  };
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
          <Button busy={make.isPending && "Making"} onClick={() => void ask()}>
            Make new ones
          </Button>
        </div>
      )}
    </Part>
  );
}
