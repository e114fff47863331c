import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data } from "@/api/client";
import { meQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { PlainPage } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { FormError } from "@/kit/states";
import { SignOut } from "@/signin/sign-out";
import { Invitations } from "./invitations";

const Floating = lazy(() => import("@/kit/floating"));

/** What asks and tells over the page: there is no shell around this one. */
function Floats() {
  return (
    <Suspense>
      <Floating />
    </Suspense>
  );
}

/** Signed in, but in no team. */
export function NoTeamScreen() {
  const [name, setName] = useState("");
  const client = useQueryClient();
  const navigate = useNavigate();
  const me = useQuery(meQuery());
  const create = useMutation({
    mutationFn: () => data(api.POST("/teams", { body: { name } })),
    onSuccess: async (team) => {
      await client.fetchQuery({ ...meQuery(), staleTime: 0 });
      await navigate({ to: "/$team/p", params: { team: team.slug } });
    },
  });
  // Only operators make teams: a second one ends places without isolation for all.
  if (!me.data?.user.operator)
    return (
      <PlainPage title={t`You are not in a team`}>
        <p className="mb-6 text-fg2">
          <Trans>Ask a team's owner or admin for an invite. You are signed in as {me.data?.user.email}.</Trans>
        </p>
        <Invitations />
        <Floats />
        <div className="mt-8">
          <SignOut />
        </div>
      </PlainPage>
    );
  return (
    <PlainPage title={t`You are not in a team`}>
      <p className="mb-4 text-fg2">
        <Trans>Accept an invitation or create a team.</Trans>
      </p>
      <div className="mb-6 empty:hidden">
        <Invitations />
      </div>
      <Floats />
      <form
        className="flex flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          create.mutate();
        }}
      >
        <TextField label={t`Team`} required value={name} onChange={(e) => setName(e.target.value)} />
        <FormError error={create.error} />
        <Button type="submit" look="primary" busy={create.isPending} className="self-start">
          <Trans>Create team</Trans>
        </Button>
      </form>
      <div className="mt-8">
        <SignOut />
      </div>
    </PlainPage>
  );
}
