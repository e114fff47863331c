import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { bytes, nounWithin, plain, sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { lazy } from "@/kit/part";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { cachesQuery, placeKeys, policyQuery } from "@/sandboxes/queries";
import { findPlace } from "@/sandboxes/which";
import { BOUNDARIES } from "@/sandboxes/words";
import { useMe, useTeam } from "@/state/team";
import { PlaceMark } from "./place-mark";

const InstancePlacesSettings = lazy(() => import("./instance-places"));
const PlaceWishes = lazy(() => import("./place-people").then((m) => ({ default: m.PlaceWishes })));
const PlaceRights = lazy(() => import("./place-people").then((m) => ({ default: m.PlaceRights })));

type Policy = Schemas["TeamPlaces"];

/** Where the team's workspaces may live. */
export default function PlacesSettings() {
  const team = useTeam();
  const me = useMe();
  const policy = useQuery(policyQuery(team.slug));
  if (policy.isPending) return <Skeleton rows={6} label={t`Loading the places`} />;
  if (policy.isError && !policy.data)
    return (
      <Failure what={t`The places could not be loaded.`} error={policy.error} retry={() => void policy.refetch()} />
    );
  return (
    <div className="flex flex-col gap-7">
      <PlaceList places={policy.data.executors.filter((p) => !p.runner_id)} />
      <Rules key={team.id} policy={policy.data} />
      <Suspense fallback={<Skeleton rows={3} label={t`Loading your places`} />}>
        {team.can("workspace.create") && <PlaceWishes key={`wishes-${team.id}`} places={policy.data.executors} />}
        {team.can("team.manage") && <PlaceRights key={`rights-${team.id}`} />}
      </Suspense>
      <Below policy={policy.data} />
      <Caches />
      {me.user.operator && (
        <Suspense fallback={<Skeleton rows={5} label={t`Loading the server's places`} />}>
          <InstancePlacesSettings />
        </Suspense>
      )}
    </div>
  );
}

function PlaceList({ places: all }: { places: Policy["executors"] }) {
  const places = all.filter((p) => !p.not_set_up);
  const rest = all.filter((p) => p.not_set_up);
  return (
    <section aria-labelledby="places">
      <h2 id="places" className="mb-2 text-title font-semibold">
        <Trans>Places of this server</Trans>
      </h2>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {places.map((p) => (
          <li key={p.kind} className="py-2">
            <p className="flex flex-wrap items-baseline gap-x-2">
              <span className="font-medium">{p.name}</span>
              {p.boundary_name !== p.name && <span className="text-meta text-fg3">{p.boundary_name}</span>}
              <span className="ml-auto">
                <PlaceMark of={p} />
              </span>
            </p>
            {p.available ? (
              <p className="text-fg2">
                {[
                  `${p.isolation.replace(/\.$/, "")}.`,
                  p.start && t`Its start: ${p.start.replace(/\.$/, "")}.`,
                  p.warning,
                ]
                  .filter(Boolean)
                  .join(" ")}
              </p>
            ) : (
              <>
                <p className="text-fg2">{sentence(p.reason)}</p>
                <p className="text-meta text-fg3">{plain(sentence(p.hint))}</p>
              </>
            )}
          </li>
        ))}
      </ul>
      {rest.length > 0 && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>Not set up by an operator of this server: {rest.map((p) => p.name).join(", ")}.</Trans>
        </p>
      )}
    </section>
  );
}

/** Workspaces that live in a place weaker than the rules ask for by now. */
function Below({ policy }: { policy: Policy }) {
  const team = useTeam();
  if (policy.below.length === 0) return null;
  return (
    <section aria-labelledby="below">
      <h2 id="below" className="mb-1 text-title font-semibold">
        <Trans>Weaker than the rules require</Trans>
      </h2>
      <p className="mb-2 text-fg2">
        <Trans>Running sessions continue. Nothing new starts until they are moved.</Trans>
      </p>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {policy.below.map((w) => (
          <li key={w.id} className="flex min-h-8 items-baseline gap-3 py-1">
            <Link
              to="/$team/w/$key"
              params={{ team: team.slug, key: w.key }}
              search={{ dialog: "place" }}
              className="min-h-6 min-w-0 flex-1 truncate leading-6 text-accent hover:underline"
            >
              {w.key} {w.name}
            </Link>
            <span className="text-meta text-fg3">
              {findPlace(policy.executors, w)?.name ?? w.executor}
              {w.running ? t`, running` : ""}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Rules({ policy }: { policy: Policy }) {
  const team = useTeam();
  const client = useQueryClient();
  const manage = team.can("team.manage");
  const server = policy.instance_weakest_boundary;
  return (
    <SettingsForm
      loaded={{
        weakest_boundary: policy.weakest_boundary || "none",
        default_executor: policy.default_executor,
        allow_user_choice: policy.allow_user_choice,
      }}
      fields={[
        {
          disabled: !manage,
          fields: [
            {
              name: "weakest_boundary",
              label: t`Minimum isolation`,
              type: "radio",
              disabled: !manage,
              options: BOUNDARIES.map((b) => ({
                value: b.value,
                label: b.value === "none" ? t`Any` : t`${b.name} or stronger`,
                hint: b.value === "none" ? t`Includes places without isolation, if this server allows them.` : b.means,
              })),
            },
            {
              name: "default_executor",
              label: t`Place for new workspaces`,
              type: "choice",
              hint: t`A project can set another one, and users can choose for each workspace if this server allows it.`,
              options: [
                { value: "", label: t`Server default` },
                ...policy.executors
                  .filter((p) => !p.runner_id) // a machine is its owner's to choose
                  .map((p) => ({
                    value: p.kind,
                    label: `${p.name}${p.available ? "" : t` (cannot be used now)`}`,
                    disabled: !p.available,
                  })),
              ],
            },
            {
              name: "allow_user_choice",
              label: t`Members may choose another place for their workspaces`,
              type: "boolean",
              hint: t`Otherwise everyone uses the place above. Admins can still choose for projects.`,
            },
          ],
        },
        ...(manage
          ? []
          : [
              {
                note: () => (
                  <p className="text-meta text-fg3">
                    <Trans>An admin of the team can change this.</Trans>
                  </p>
                ),
              },
            ]),
      ]}
      save={(_, body) => data(api.PUT("/teams/{team}/places", { params: { path: { team: team.slug } }, body }))}
      onSaved={(saved) => client.setQueryData(placeKeys.policy(team.slug), saved)}
      refresh={[keys.executors(team.slug)]}
      button={manage ? t`Save` : ""}
    >
      <h2 className="text-title font-semibold">
        <Trans>Rules of the team</Trans>
      </h2>
      {server && server !== "none" && (
        <p className="text-fg2">
          <Trans>
            This server requires {nounWithin(BOUNDARIES.find((b) => b.value === server)?.name ?? server)} or stronger,
            regardless of the team's rules.
          </Trans>
        </p>
      )}
    </SettingsForm>
  );
}

const CACHES: Record<string, string> = {
  "go-mod": t`Go modules`,
  "go-build": t`Go builds`,
  npm: t`npm packages`,
  pip: t`Python packages`,
};

/** What the team's sandboxes share so that each need not download everything again. */
function Caches() {
  const team = useTeam();
  const caches = useQuery(cachesQuery(team.slug));
  const empty = useAction({
    act: () => api.DELETE("/teams/{team}/caches", { params: { path: { team: team.slug } } }),
    confirm: {
      title: t`Empty the team's caches?`,
      body: t`Packages are downloaded again when needed.`,
      action: t`Empty`,
    },
    refresh: [placeKeys.caches(team.slug)],
    done: t`The caches are empty`,
    failed: t`The caches were not emptied`,
  });
  return (
    <section aria-labelledby="caches">
      <h2 id="caches" className="mb-1 text-title font-semibold">
        <Trans>Caches</Trans>
      </h2>
      <p className="mb-2 text-fg2">
        <Trans>
          Packages that the team's isolated workspaces share. Other teams never see them; members of this one can change
          them.
        </Trans>
      </p>
      {caches.isPending ? (
        <Skeleton rows={2} label={t`Measuring the caches`} />
      ) : caches.isError && !caches.data ? (
        <Failure what={t`The caches could not be loaded.`} error={caches.error} retry={() => void caches.refetch()} />
      ) : !caches.data.enabled ? (
        <p className="text-fg3">
          <Trans>Disabled on this server.</Trans>
        </p>
      ) : (
        <>
          <p className="mb-2 text-fg2">
            <Trans>
              {bytes(caches.data.bytes)} in all
              {caches.data.max_bytes > 0 ? t`, at most ${bytes(caches.data.max_bytes)}` : ""}.
            </Trans>
          </p>
          <ul className="mb-3 divide-y divide-hairline border-y border-hairline">
            {caches.data.items.map((c) => (
              <li key={c.name} className="flex min-h-8 items-baseline gap-3 py-1">
                <span className="flex-1">{CACHES[c.name] ?? c.name}</span>
                <span className="tabular-nums">{bytes(c.bytes)}</span>
              </li>
            ))}
          </ul>
          {team.can("team.manage") && (
            <Button busy={empty.busy && t`Emptying`} onClick={() => void empty.run()}>
              <Trans>Empty the caches</Trans>
            </Button>
          )}
        </>
      )}
    </section>
  );
}
