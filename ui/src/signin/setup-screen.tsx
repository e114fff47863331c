import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys, setupQuery } from "@/api/queries";
import { Button, buttonClass } from "@/kit/button";
import { TextField } from "@/kit/field";
import { PlainPage } from "@/kit/pages";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { useLinkToken } from "./link-token";
import { newPasswordError } from "./password-error";

/** The first user and team, from the one-time link the server printed. */
export function SetupScreen() {
  useTitle(t`Set up`);
  const state = useQuery(setupQuery());
  const { token, used } = useLinkToken("setup");

  if (state.isPending)
    return (
      <PlainPage title={t`Set up Parawork`}>
        <Skeleton />
      </PlainPage>
    );
  if (state.isError)
    return (
      <PlainPage title={t`Set up Parawork`}>
        <Failure what={t`The server could not be reached.`} error={state.error} retry={() => void state.refetch()} />
      </PlainPage>
    );
  if (!state.data.needed)
    return (
      <PlainPage title={t`Already set up`}>
        <p className="mb-4 text-fg2">
          <Trans>The first user already exists. This link works only once.</Trans>
        </p>
        <Link to="/login" className={buttonClass("primary", "self-start")}>
          <Trans>Sign in</Trans>
        </Link>
      </PlainPage>
    );
  if (!token)
    return (
      <PlainPage title={t`Open the setup link`}>
        <p className="text-fg2">
          <Trans>
            This server has no users yet. When it started, it printed a one-time link that ends in{" "}
            <code className="rounded-sm bg-bg3 px-1">/setup#…</code>. Open that link to create the first user.
          </Trans>
        </p>
        <p className="mt-3 text-fg2">
          <Trans>Lost the link? Restart the server. It prints a new link as long as there is no user.</Trans>
        </p>
      </PlainPage>
    );
  return <SetupForm key={token} token={token} used={used} />;
}

function SetupForm({ token, used }: { token: string; used: () => void }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [team, setTeam] = useState("");
  const setup = useMutation({
    mutationFn: () =>
      data(api.POST("/setup", { body: { token, name, email, password, team: team.trim() || teamOf(name) } })),
    onSuccess: async (me) => {
      used();
      client.setQueryData(keys.me, me);
      client.setQueryData(keys.setup, { needed: false });
      const first = me.teams[0];
      if (first) await navigate({ to: "/$team/p", params: { team: first.slug } });
      else await navigate({ to: "/" });
    },
  });
  const field = (f: string) => (f === "password" ? newPasswordError(setup.error) : fieldError(setup.error, f));
  const shown = ["name", "email", "password", "team"].some(field);

  return (
    <PlainPage title={t`Set up Parawork`}>
      <form
        className="flex flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          setup.mutate();
        }}
      >
        <TextField
          label={t`Your name`}
          autoComplete="name"
          required
          autoFocus
          value={name}
          error={field("name")}
          onChange={(e) => setName(e.target.value)}
        />
        <TextField
          label={t`E-mail`}
          type="email"
          autoComplete="username"
          required
          value={email}
          error={field("email")}
          onChange={(e) => setEmail(e.target.value)}
        />
        <TextField
          label={t`Password`}
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          hint={t`At least 10 characters. A long phrase is best.`}
          value={password}
          error={field("password")}
          onChange={(e) => setPassword(e.target.value)}
        />
        <TextField
          label={t`Team`}
          placeholder={teamOf(name)}
          hint={t`Projects and workspaces belong to a team. Leave it empty to begin on your own: it can be renamed.`}
          value={team}
          error={field("team")}
          onChange={(e) => setTeam(e.target.value)}
        />
        {!shown && <FormError error={setup.error} />}
        <Button type="submit" look="primary" busy={setup.isPending && t`Setting up`} className="self-start">
          <Trans>Create and sign in</Trans>
        </Button>
      </form>
    </PlainPage>
  );
}

/** What the team of somebody who names none is called. */
const teamOf = (name: string) => (name.trim() ? t`Team of ${name.trim()}` : t`My team`);
