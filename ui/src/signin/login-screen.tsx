import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button, buttonClass } from "@/kit/button";
import { TextField } from "@/kit/field";
import { PlainPage } from "@/kit/pages";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { type SecondStep, signIn, type Ways } from "./calls";
import { passkeysHere } from "./passkey";
import { secondStepQuery, waysQuery } from "./queries";
import { refusal } from "./refusals";
import { SecondStepForm } from "./second-step";
import { useEnter } from "./use-enter";
import { usePasskeySignIn } from "./use-passkey";
import { safeNext } from "./words";

const route = getRouteApi("/login");

export function LoginScreen() {
  useTitle(t`Sign in`);
  const ways = useQuery(waysQuery());
  const { next, step: asked } = route.useSearch();
  const enter = useEnter(next);
  const [step, setStep] = useState<SecondStep | undefined>();
  const [over, setOver] = useState(false);
  const [tooLate, setTooLate] = useState(false);
  const begun = useQuery({ ...secondStepQuery(), enabled: asked === "second" && !over });
  const now = step ?? (over ? undefined : begun.data);

  if (ways.isPending || begun.isLoading)
    return (
      <PlainPage title={t`Sign in`}>
        <Skeleton />
      </PlainPage>
    );
  if (ways.isError)
    return (
      <PlainPage title={t`Sign in`}>
        <Failure what={t`The server could not be reached.`} error={ways.error} retry={() => void ways.refetch()} />
      </PlainPage>
    );
  if (now)
    return (
      <PlainPage title={t`Second factor`}>
        <SecondStepForm
          step={now}
          onMe={enter}
          onStartOver={(late) => {
            setOver(true);
            setTooLate(late);
            setStep(undefined);
          }}
        />
      </PlainPage>
    );
  return (
    <PlainPage title={t`Sign in`}>
      <FirstStep
        ways={ways.data}
        tooLate={tooLate || begun.isError}
        onStep={(s) => {
          setTooLate(false);
          setStep(s);
        }}
      />
    </PlainPage>
  );
}

function FirstStep({ ways, tooLate, onStep }: { ways: Ways; tooLate: boolean; onStep: (s: SecondStep) => void }) {
  const { next, error, provider } = route.useSearch();
  const enter = useEnter(next);
  const passkeys = ways.passkeys && passkeysHere() === "";
  const passkey = usePasskeySignIn({ suggest: passkeys && ways.password, onMe: enter });
  const named = ways.providers.find((p) => p.id === provider)?.name;
  const others = passkeys || ways.providers.length > 0;
  return (
    <>
      {ways.insecure && <Insecure />}
      {error && <Refused words={refusal(error, named)} />}
      {tooLate && <Refused words={t`That took too long. Sign in again.`} />}
      {ways.password && <PasswordForm mail={ways.mail} onStep={onStep} suggest={passkeys} ready={passkey.settled} />}
      {others && (
        <div className="flex flex-col gap-2">
          {ways.password && (
            <p className="my-3 flex items-center gap-3 text-meta text-fg3">
              <span aria-hidden className="h-px flex-1 bg-hairline" />
              <Trans>or</Trans>
              <span aria-hidden className="h-px flex-1 bg-hairline" />
            </p>
          )}
          {passkeys && (
            <Button onClick={() => passkey.ask.mutate()} busy={passkey.sending && t`Waiting for your passkey`}>
              <Trans>Use a passkey</Trans>
            </Button>
          )}
          <FormError error={passkey.error} />
          {ways.providers.map((p) => (
            <a
              key={p.id}
              href={`/api/v1/login/providers/${encodeURIComponent(p.id)}?${new URLSearchParams({ next: safeNext(next) })}`}
              className={buttonClass("plain")}
            >
              <Trans>Continue with {p.name}</Trans>
            </a>
          ))}
        </div>
      )}
      {!ways.password && !others && (
        <p className="text-fg2">
          {ways.passkeys
            ? t`This server accepts only passkeys, and this browser does not support them at this address.`
            : t`No sign-in method is enabled. An operator of this server enables one under accounts in its config.json.`}
        </p>
      )}
      <p className="mt-8 text-meta text-fg3">
        <Trans>
          No account? A team's owner or admin can invite you
          {ways.password && !ways.mail && t`, or an operator of this server can send you a password reset link`}.
        </Trans>
      </p>
    </>
  );
}

interface PasswordProps {
  mail: boolean;
  suggest: boolean;
  onStep: (s: SecondStep) => void;
  /** Resolves when nothing else is asked of the server that would come between. */
  ready: () => Promise<unknown>;
}

function PasswordForm({ mail, suggest, onStep, ready }: PasswordProps) {
  const { next } = route.useSearch();
  const enter = useEnter(next);
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const login = useMutation({
    mutationFn: async () => {
      await ready();
      return signIn(email, password);
    },
    onSuccess: (answer) => {
      if ("me" in answer) enter(answer.me);
      else onStep(answer.step);
    },
    onError: () => setPassword(""),
  });
  return (
    <form
      className="flex flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        login.mutate();
      }}
    >
      <TextField
        label={t`E-mail`}
        type="email"
        autoComplete={suggest ? "username webauthn" : "username"}
        required
        autoFocus
        value={email}
        onChange={(e) => setEmail(e.target.value)}
      />
      <TextField
        label={t`Password`}
        type="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={(e) => setPassword(e.target.value)}
        aside={
          mail && (
            <Link to="/reset" className="text-meta text-accent underline">
              <Trans>Forgot password?</Trans>
            </Link>
          )
        }
      />
      <FormError error={login.error} />
      <Button type="submit" look="primary" busy={login.isPending && t`Signing in`} className="justify-center">
        <Trans>Sign in</Trans>
      </Button>
    </form>
  );
}

/** The page came over plain http from another machine. */
export function Insecure() {
  return (
    <p className="mb-4 rounded-md border border-needs px-3 py-2 text-fg2">
      <Trans>
        <strong className="font-medium text-needs">This connection is not encrypted.</strong> Others on the network can
        read what you type and take over your login. Ask an operator of this server for its HTTPS address.
      </Trans>
    </p>
  );
}

function Refused({ words }: { words: string }) {
  return (
    <p role="alert" className="mb-4 rounded-md border border-failed px-3 py-2 text-failed">
      {words}
    </p>
  );
}
