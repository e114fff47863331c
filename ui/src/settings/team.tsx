import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { api, data } from "@/api/client";
import { Check } from "@/kit/field";
import { lazy } from "@/kit/part";
import { SettingsForm } from "@/kit/settings/form";
import { Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useRefreshMe } from "@/people/use-refresh-me";
import { useMe, useTeam } from "@/state/team";

const Webhooks = lazy(() => import("./webhooks"));
const PermissionRules = lazy(() => import("@/tools/permissions"));

/** The team's name, its rules, and further teams. */
export default function TeamSettings() {
  const team = useTeam();
  const me = useMe();
  const manage = team.can("team.manage");
  return (
    <div className="flex flex-col gap-7">
      {manage ? <TeamName key={team.id} /> : <h2 className="text-title font-semibold">{team.name}</h2>}
      {manage && <SecondFactor />}
      {manage && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <Webhooks />
        </Suspense>
      )}
      <Suspense fallback={<Skeleton rows={2} />}>
        <PermissionRules team={team.slug} readOnly={!manage} />
      </Suspense>
      {me.user.operator && <NewTeam />}
    </div>
  );
}

const ONE_LINE = { inline: true, look: "plain" } as const;

function TeamName() {
  const team = useTeam();
  const refresh = useRefreshMe();
  return (
    <SettingsForm
      {...ONE_LINE}
      loaded={{ name: team.name }}
      fields={[
        {
          name: "name",
          label: t`Team name`,
          type: "text",
          hint: t`Its address stays /${team.slug}.`,
          className: "max-w-sm flex-1",
          input: { required: true },
        },
      ]}
      save={(body) => data(api.PATCH("/teams/{team}", { params: { path: { team: team.slug } }, body }))}
      onSaved={refresh}
      button={t`Save`}
    />
  );
}

function SecondFactor() {
  const team = useTeam();
  const save = useAction({
    act: (on: boolean) =>
      data(api.PATCH("/teams/{team}", { params: { path: { team: team.slug } }, body: { second_factor: on } })),
    confirm: (on) =>
      on && {
        title: t`Require a second factor from every member of ${team.name}?`,
        body: t`Members without one cannot see the team until they have set one up. Their agents continue.`,
        action: t`Require it`,
      },
    done: useRefreshMe(),
    failed: t`The setting was not changed`,
  });
  return (
    <section aria-labelledby="security">
      <h2 id="security" className="mb-1 text-title font-semibold">
        <Trans>Security</Trans>
      </h2>
      <Check
        label={t`Members need a second factor`}
        hint={t`An authenticator app or a passkey, besides the password. You need one yourself to require it.`}
        checked={team.second_factor}
        disabled={save.busy}
        onChange={(e) => void save.run(e.target.checked)}
      />
    </section>
  );
}

function NewTeam() {
  const navigate = useNavigate();
  const refresh = useRefreshMe();
  return (
    <SettingsForm
      {...ONE_LINE}
      create
      loaded={{ name: "" }}
      fields={[
        {
          name: "name",
          label: t`Create another team`,
          type: "text",
          hint: t`Teams share nothing. You become its owner.`,
          errors: ["slug"],
          className: "max-w-sm flex-1",
          input: { required: true },
        },
      ]}
      save={(_, body) => data(api.POST("/teams", { body }))}
      onSaved={async (made) => {
        await refresh();
        await navigate({ to: "/$team/w", params: { team: made.slug } });
      }}
      button={t`Create`}
      busy={t`Creating`}
    />
  );
}
