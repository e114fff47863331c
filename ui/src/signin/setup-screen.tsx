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
  useTitle("Set up");
  const state = useQuery(setupQuery());
  const { token, used } = useLinkToken("setup");

  if (state.isPending)
    return (
      <PlainPage title="Set up Parawork">
        <Skeleton />
      </PlainPage>
    );
  if (state.isError)
    return (
      <PlainPage title="Set up Parawork">
        <Failure what="The server could not be reached." error={state.error} retry={() => void state.refetch()} />
      </PlainPage>
    );
  if (!state.data.needed)
    return (
      <PlainPage title="Already set up">
        <p className="mb-4 text-fg2">The first user already exists. This link works only once.</p>
        <Link to="/login" className={buttonClass("primary", "self-start")}>
          Sign in
        </Link>
      </PlainPage>
    );
  if (!token)
    return (
      <PlainPage title="Open the setup link">
        <p className="text-fg2">
          This server has no users yet. When it started, it printed a one-time link that ends in{" "}
          <code className="rounded-sm bg-bg3 px-1">/setup#…</code>. Open that link to create the first user.
        </p>
        <p className="mt-3 text-fg2">
          Lost the link? Restart the server. It prints a new link as long as there is no user.
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
    <PlainPage title="Set up Parawork">
      <form
        className="flex flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          setup.mutate();
        }}
      >
        <TextField
          label="Your name"
          autoComplete="name"
          required
          autoFocus
          value={name}
          error={field("name")}
          onChange={(e) => setName(e.target.value)}
        />
        <TextField
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          value={email}
          error={field("email")}
          onChange={(e) => setEmail(e.target.value)}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          hint="At least 10 characters. A long phrase is best."
          value={password}
          error={field("password")}
          onChange={(e) => setPassword(e.target.value)}
        />
        <TextField
          label="Team"
          placeholder={teamOf(name)}
          hint="Projects and workspaces belong to a team. Leave it empty to begin on your own: it can be renamed."
          value={team}
          error={field("team")}
          onChange={(e) => setTeam(e.target.value)}
        />
        {!shown && <FormError error={setup.error} />}
        <Button type="submit" look="primary" busy={setup.isPending && "Setting up"} className="self-start">
          Create and sign in
        </Button>
      </form>
    </PlainPage>
  );
}

/** What the team of somebody who names none is called. */
const teamOf = (name: string) => (name.trim() ? `Team of ${name.trim()}` : "My team");
