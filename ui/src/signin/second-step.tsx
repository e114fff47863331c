import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { Me } from "@/api/client";
import { ApiError } from "@/api/problem";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { type Method, passkeyOptions, type SecondStep, signInWithCode, signInWithPasskey } from "./calls";
import { getPasskey, passkeysHere } from "./passkey";
import { digits } from "./words";

interface Props {
  step: SecondStep;
  onMe: (me: Me) => void;
  onStartOver: (tooLate: boolean) => void;
}

const OTHERWISE: Record<Method, string> = {
  totp: t`Use an authenticator app code`,
  recovery_code: t`Use a recovery code`,
  passkey: t`Use a passkey`,
};

/** The second proof: a code, a recovery code or a passkey. */
export function SecondStepForm({ step, onMe, onStartOver }: Props) {
  const methods = step.methods.filter((m) => m !== "passkey" || passkeysHere() === "");
  const [method, setMethod] = useState<Method | undefined>(methods[0]);
  const late = useNow(5_000) > step.expires_at;
  const over = useRef(onStartOver);
  over.current = onStartOver;
  useEffect(() => {
    if (late) over.current(true);
  }, [late]);

  return (
    <>
      {method === "totp" && <CodeForm key="totp" method="totp" onMe={onMe} onStartOver={onStartOver} />}
      {method === "recovery_code" && (
        <CodeForm key="recovery_code" method="recovery_code" onMe={onMe} onStartOver={onStartOver} />
      )}
      {method === "passkey" && <PasskeyForm onMe={onMe} />}
      {!method && (
        <p className="text-fg2">
          <Trans>
            Your account requires a passkey, and this browser does not support passkeys at this address. Use the browser
            or address where you created it.
          </Trans>
        </p>
      )}
      <div className="mt-6 flex flex-col items-start gap-1">
        {methods
          .filter((m) => m !== method)
          .map((m) => (
            <Button key={m} look="quiet" className="-ml-2.5" onClick={() => setMethod(m)}>
              {OTHERWISE[m]}
            </Button>
          ))}
        <Button look="quiet" className="-ml-2.5" onClick={() => onStartOver(false)}>
          <Trans>Start over</Trans>
        </Button>
      </div>
    </>
  );
}

interface CodeProps {
  method: "totp" | "recovery_code";
  onMe: (me: Me) => void;
  onStartOver: (tooLate: boolean) => void;
}

function CodeForm({ method, onMe, onStartOver }: CodeProps) {
  const [code, setCode] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const send = useMutation({
    mutationFn: (value: string) => signInWithCode(method, value),
    onSuccess: onMe,
    onError: (error) => {
      // The wait for the second step is over: too late, or too many wrong codes.
      if (error instanceof ApiError && error.code === "login_ended") onStartOver(true);
      setCode("");
      field.current?.focus();
    },
  });
  const totp = method === "totp";
  return (
    <form
      className="flex flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        if (!send.isPending) send.mutate(code);
      }}
    >
      <TextField
        ref={field}
        label={totp ? t`Code from your authenticator app` : t`Recovery code`}
        hint={
          totp
            ? t`Six digits. The code changes every 30 seconds.`
            : t`One of your saved recovery codes. Each works once.`
        }
        autoComplete="one-time-code"
        inputMode={totp ? "numeric" : undefined}
        autoCapitalize="none"
        spellCheck={false}
        required
        autoFocus
        mono
        className="text-touch! tracking-widest"
        value={code}
        onChange={(e) => {
          if (!totp) return setCode(e.target.value);
          const next = digits(e.target.value);
          setCode(next);
          if (next.length === 6 && code.length < 6 && !send.isPending) send.mutate(next);
        }}
      />
      <FormError error={send.error} />
      <Button type="submit" look="primary" className="self-start" busy={send.isPending && t`Signing in`}>
        <Trans>Sign in</Trans>
      </Button>
    </form>
  );
}

function PasskeyForm({ onMe }: { onMe: (me: Me) => void }) {
  const passkey = useMutation({
    mutationFn: async () => signInWithPasskey(await getPasskey(await passkeyOptions())),
    onSuccess: onMe,
  });
  return (
    <div className="flex flex-col gap-3.5">
      <p className="text-fg2">
        <Trans>Use your fingerprint, this device's screen lock or a security key.</Trans>
      </p>
      <FormError error={passkey.error} />
      <Button
        look="primary"
        className="self-start"
        autoFocus
        onClick={() => passkey.mutate()}
        busy={passkey.isPending && t`Waiting for your passkey`}
      >
        <Trans>Use a passkey</Trans>
      </Button>
    </div>
  );
}
