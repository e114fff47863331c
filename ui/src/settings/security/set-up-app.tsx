import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { CopyLine, FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { confirmApp } from "@/signin/calls";
import { QrCode } from "@/signin/qr";
import { digits, inFours } from "@/signin/words";
import { CodesToKeep } from "./codes-to-keep";

interface Props {
  made: { secret: string; uri: string };
  email: string;
  onClose: () => void;
}

/** Scan, type the first code, keep the recovery codes. */
export default function SetUpApp({ made, email, onClose }: Props) {
  const client = useQueryClient();
  const [code, setCode] = useState("");
  const [codes, setCodes] = useState<string[] | undefined>();
  const send = useAction({
    act: (typed: string) =>
      confirmApp(typed).catch((error) => {
        setCode(""); // a code that was refused is of no use
        throw error;
      }),
    done: setCodes,
  });
  const done = () => {
    void client.invalidateQueries({ queryKey: keys.me });
    onClose();
  };

  if (codes) return <CodesToKeep codes={codes} email={email} onDone={done} />;
  return (
    <form
      className="flex flex-col gap-4 panel p-4"
      onSubmit={(e) => {
        e.preventDefault();
        if (!send.busy) void send.run(code);
      }}
    >
      <div className="flex flex-col gap-4 sm:flex-row">
        <QrCode text={made.uri} label={t`QR code of the secret, for the app's camera`} />
        <div className="flex min-w-0 flex-1 flex-col gap-2.5">
          <p>
            <Trans>
              Scan this with the app. No camera? Type the key into the app, or{" "}
              <a href={made.uri} className="text-accent underline">
                open it on this device
              </a>
              .
            </Trans>
          </p>
          <CopyLine text={inFours(made.secret)} label={t`the key`} />
        </div>
      </div>
      <TextField
        fieldClass="max-w-60"
        label={t`Code from the app`}
        hint={t`Six digits.`}
        autoComplete="one-time-code"
        inputMode="numeric"
        required
        autoFocus
        mono
        className="text-touch! tracking-widest"
        value={code}
        onChange={(e) => {
          const next = digits(e.target.value);
          setCode(next);
          if (next.length === 6 && code.length < 6 && !send.busy) void send.run(next);
        }}
      />
      <FormError error={send.error} />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={send.busy && t`Checking`}>
          <Trans>Turn on</Trans>
        </Button>
        <Button onClick={onClose}>
          <Trans>Cancel</Trans>
        </Button>
      </div>
    </form>
  );
}
