import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button, buttonClass } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { PlainPage } from "@/kit/pages";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { askForLink, resetPassword } from "./calls";
import { useLinkToken } from "./link-token";
import { newPasswordError } from "./password-error";
import { waysQuery } from "./queries";

/** A new password: by a link that carries a token, else the form that asks for such a link by mail. */
export function ResetScreen() {
  useTitle(t`New password`);
  const { token, used } = useLinkToken("reset");
  const ways = useQuery(waysQuery());
  if (ways.isPending)
    return (
      <PlainPage title={t`New password`}>
        <Skeleton />
      </PlainPage>
    );
  if (ways.isError)
    return (
      <PlainPage title={t`New password`}>
        <Failure what={t`The server could not be reached.`} error={ways.error} retry={() => void ways.refetch()} />
      </PlainPage>
    );
  return (
    <PlainPage title={token ? t`Choose a new password` : t`Forgotten password`}>
      {ways.data.insecure && <Insecure />}
      {token ? <NewPassword key={token} token={token} used={used} /> : ways.data.mail ? <AskForLink /> : <NoMail />}
      <p className="mt-8 text-meta">
        <Link to="/login" className="text-accent underline">
          <Trans>Back to sign in</Trans>
        </Link>
      </p>
    </PlainPage>
  );
}

function NewPassword({ token, used }: { token: string; used: () => void }) {
  const [password, setPassword] = useState("");
  const [keep, setKeep] = useState(false);
  const reset = useMutation({ mutationFn: () => resetPassword(token, password, keep), onSuccess: used });
  const field = newPasswordError(reset.error);
  if (reset.isSuccess)
    return (
      <div role="status">
        <p className="mb-4 text-fg2">
          <Trans>
            Your password is changed. All your login sessions{keep ? "" : t` and API tokens`} have ended. Sign in with
            the new password.
          </Trans>
        </p>
        <Link to="/login" className={buttonClass("primary")}>
          <Trans>Sign in</Trans>
        </Link>
      </div>
    );
  return (
    <form
      className="flex flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        reset.mutate();
      }}
    >
      <TextField
        label={t`New password`}
        type="password"
        autoComplete="new-password"
        required
        autoFocus
        minLength={10}
        hint={t`At least 10 characters. A long phrase is best.`}
        value={password}
        error={field}
        onChange={(e) => setPassword(e.target.value)}
      />
      <Check
        label={t`Keep my API tokens`}
        hint={t`Otherwise they are revoked. Keep them only if nobody else knew the old password.`}
        checked={keep}
        onChange={(e) => setKeep(e.target.checked)}
      />
      {!field && <FormError error={reset.error} />}
      <Button type="submit" look="primary" className="self-start" busy={reset.isPending && t`Changing`}>
        <Trans>Set password</Trans>
      </Button>
    </form>
  );
}

function AskForLink() {
  const [email, setEmail] = useState("");
  const ask = useMutation({ mutationFn: () => askForLink(email) });
  if (ask.isSuccess)
    return (
      <p role="status" className="text-fg2">
        <Trans>
          If an account with this address exists, we sent it a link. No email? Check your spam folder or ask an operator
          of this server.
        </Trans>
      </p>
    );
  return (
    <form
      className="flex flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        ask.mutate();
      }}
    >
      <p className="text-fg2">
        <Trans>We email you a link to choose a new password.</Trans>
      </p>
      <TextField
        label={t`E-mail`}
        type="email"
        autoComplete="username"
        required
        autoFocus
        value={email}
        onChange={(e) => setEmail(e.target.value)}
      />
      <FormError error={ask.error} />
      <Button type="submit" look="primary" className="self-start" busy={ask.isPending && t`Sending`}>
        <Trans>Send link</Trans>
      </Button>
    </form>
  );
}

function NoMail() {
  return (
    <p className="text-fg2">
      <Trans>
        This server cannot send email. An operator can create a password reset link for you on the Users page or with{" "}
        <code className="rounded-sm bg-bg3 px-1">parawork admin reset-link</code>.
      </Trans>
    </p>
  );
}

/** The page came over plain http from another machine. */
function Insecure() {
  return (
    <p className="mb-4 rounded-md border border-needs px-3 py-2 text-fg2">
      <strong className="font-medium text-needs">
        <Trans>This connection is not encrypted.</Trans>
      </strong>{" "}
      <Trans>
        Others on the network can read what you type and take over your login. Ask an operator of this server for its
        HTTPS address.
      </Trans>
    </p>
  );
}
