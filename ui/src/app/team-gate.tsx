import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Team } from "@/api/client";
import { Button, buttonClass } from "@/kit/button";
import { TextField } from "@/kit/field";
import { Logo } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { AuthenticatorApp } from "@/settings/security/app";
import { Passkeys } from "@/settings/security/passkeys";
import { confirmBy, confirmByPasskey, confirmOptions, type OwnWays } from "@/signin/calls";
import { getPasskey, passkeysHere } from "@/signin/passkey";
import { ownWaysQuery, waysQuery } from "@/signin/queries";
import { SignOut } from "@/signin/sign-out";
import { useMe, useRefreshMe, useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { Above } from "./above";
import { Prover } from "./prover";

/** Shown instead of a team the user belongs to but cannot enter now. */
export default function TeamGate({ why }: { why: "suspended" | "second_factor" }) {
  const team = useTeam();
  useTitle(team.name);
  return (
    <main className="mx-auto flex min-h-full w-full max-w-form flex-col px-5 py-[8vh]">
      <p className="mb-6 flex items-center gap-2 font-semibold">
        <Logo />
        Parawork
      </p>
      {why === "suspended" ? <Suspended team={team} /> : <SecondFactor team={team} />}
      <Elsewhere team={team} />
      <Prover />
      <Above />
    </main>
  );
}

function Suspended({ team }: { team: Team }) {
  const refresh = useRefreshMe();
  const again = useMutation({ mutationFn: refresh });
  return (
    <>
      <h1 className="mb-2 text-figure font-semibold">
        <Trans>{team.name} is suspended</Trans>
      </h1>
      <p className="text-fg2">
        <Trans>
          Nobody can work in this team until an operator of this server restores it. Its projects, workspaces and
          commits are safe.
        </Trans>
      </p>
      <div className="mt-4">
        <Button busy={again.isPending && t`Looking`} onClick={() => again.mutate()}>
          <Trans>Check again</Trans>
        </Button>
      </div>
    </>
  );
}

function SecondFactor({ team }: { team: Team }) {
  const me = useMe();
  const own = useQuery(ownWaysQuery());
  const ways = useQuery(waysQuery());
  const refresh = useRefreshMe();
  const has = own.data ? own.data.totp.enabled || own.data.passkeys.length > 0 : undefined;

  // The factor set up here may already grant access.
  const before = useRef(has);
  useEffect(() => {
    if (before.current === false && has) void refresh().catch(() => {});
    before.current = has;
  }, [has, refresh]);

  return (
    <>
      <h1 className="mb-2 text-figure font-semibold">
        <Trans>{team.name} requires a second factor</Trans>
      </h1>
      {!own.data || !ways.data ? (
        own.isError || ways.isError ? (
          <Failure
            what={t`How you sign in could not be loaded.`}
            error={own.error ?? ways.error}
            retry={() => {
              void own.refetch();
              void ways.refetch();
            }}
          />
        ) : (
          <Skeleton />
        )
      ) : has ? (
        <Confirm own={own.data} />
      ) : (
        <>
          <p className="mb-6 text-fg2">
            <Trans>
              A password alone is not enough for this team. Set up one of these. It takes a minute and works for all
              your teams.
            </Trans>
          </p>
          <div className="flex flex-col gap-8">
            <Passkeys own={own.data} ways={ways.data} />
            <AuthenticatorApp own={own.data} email={me.user.email} />
          </div>
        </>
      )}
    </>
  );
}

/** The user has a second factor but signed in without it. */
function Confirm({ own }: { own: OwnWays }) {
  const refresh = useRefreshMe();
  const [code, setCode] = useState("");
  const after = async () => {
    await refresh();
  };
  const send = useMutation({
    mutationFn: () => confirmBy({ code: code.replace(/\s/g, "") }),
    onSuccess: after,
    onSettled: () => setCode(""),
  });
  const press = useMutation({
    mutationFn: async () => confirmByPasskey(await getPasskey(await confirmOptions())),
    onSuccess: after,
  });
  const passkey = own.passkeys.length > 0 && passkeysHere() === "";
  return (
    <form
      className="flex max-w-sm flex-col items-start gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        send.mutate();
      }}
    >
      <p className="text-fg2">
        <Trans>You signed in without your second factor. Use it now.</Trans>
      </p>
      {own.totp.enabled && (
        <>
          <TextField
            fieldClass="w-full"
            label={t`Code from your authenticator app, or a recovery code`}
            autoComplete="one-time-code"
            required
            autoFocus
            value={code}
            onChange={(e) => setCode(e.target.value)}
          />
          <Button type="submit" look="primary" busy={send.isPending && t`Checking`}>
            <Trans>Continue</Trans>
          </Button>
        </>
      )}
      {passkey && (
        <Button
          look={own.totp.enabled ? "plain" : "primary"}
          busy={press.isPending && t`Waiting for your passkey`}
          onClick={() => press.mutate()}
        >
          <Trans>Use a passkey</Trans>
        </Button>
      )}
      <FormError error={send.error ?? press.error} />
    </form>
  );
}

function Elsewhere({ team }: { team: Team }) {
  const { teams } = useMe();
  const others = teams.filter((t) => t.slug !== team.slug);
  return (
    <div className="mt-10 flex flex-wrap gap-2 border-t border-hairline pt-4">
      {others.map((t) => (
        <Link key={t.id} to="/$team" params={{ team: t.slug }} className={buttonClass("plain")}>
          <Trans>To {t.name}</Trans>
        </Link>
      ))}
      <SignOut />
    </div>
  );
}
