import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Fragment, type ReactNode, useState } from "react";
import { executorsQuery, keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { placeKeys } from "@/sandboxes/queries";
import { type Place, remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import {
  fieldsOf,
  instanceQuery,
  type PlaceSettings,
  poolCostWords,
  priceOf,
  saveInstance,
  type Values,
  valuesOf,
} from "./instance-api";
import { AddRegion, PlaceRow } from "./place-row";

/** What operators say of the places of the whole server. What config.json says is shown and cannot be changed here. */
export default function InstancePlacesSettings() {
  const team = useTeam();
  const settings = useQuery(instanceQuery());
  const executors = useQuery(executorsQuery(team.slug));
  if (settings.isPending || executors.isPending) return <Skeleton rows={5} label={t`Loading the server's places`} />;
  if (settings.isError && !settings.data)
    return (
      <Failure
        what={t`The server's places could not be loaded.`}
        error={settings.error}
        retry={() => void settings.refetch()}
      />
    );
  const { places, settings: all } = settings.data;
  const isPool = (s: { name: string }) => s.name.startsWith("pool.");
  const paid = executors.data?.find((x) => !x.runner_id && !x.not_set_up && priceOf(x) > 0);
  return (
    <section aria-labelledby="instance-places" className="flex flex-col gap-7">
      <div>
        <h2 id="instance-places" className="mb-1 text-title font-semibold">
          <Trans>The whole server</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>For operators. A value with a lock is set in config.json or the environment.</Trans>
        </p>
      </div>
      <Part settings={all.filter((s) => !isPool(s))} button={t`Save for the server`} />
      <Places all={places} executors={executors.data} />
      <Part
        labelledBy="instance-pool"
        settings={all.filter(isPool)}
        words={(v) => <PoolCost price={priceOf(paid)} least={v["pool.enabled"] ? Number(v["pool.min"] ?? 0) : 0} />}
        button={t`Save the pool`}
      >
        <h3 id="instance-pool" className="font-semibold">
          <Trans>Sandboxes made ahead of time</Trans>
        </h3>
      </Part>
    </section>
  );
}

interface PlacesProps {
  all: PlaceSettings[];
  executors: Place[] | undefined;
}

/** The places with settings, one a row. Those that nobody has set up are folded; one that is set up moves up with its open form. */
function Places({ all, executors }: PlacesProps) {
  const [adding, setAdding] = useState(false);
  const [added, setAdded] = useState("");
  const groups = all
    .filter((p) => p.settings.length > 0 && !p.kind.includes("@"))
    .map((p) => ({
      place: p,
      executor: executors?.find((x) => x.kind === p.kind),
      regions: all.filter((r) => r.kind.startsWith(`${p.kind}@`)),
    }));
  const isSetUp = (g: (typeof groups)[number]) =>
    g.regions.length > 0 || (g.executor !== undefined && !g.executor.not_set_up);
  const rows = (g: (typeof groups)[number]) => (
    <Fragment key={g.place.kind}>
      <PlaceRow place={g.place} executor={g.executor}>
        {g.place.regional && <AddRegion place={g.place} onAdded={setAdded} />}
      </PlaceRow>
      {g.regions.map((r) => (
        <PlaceRow
          key={r.kind}
          place={r}
          executor={executors?.find((x) => x.kind === r.kind)}
          startsOpen={r.kind === added}
        />
      ))}
    </Fragment>
  );
  const rest = groups.filter((g) => !isSetUp(g));
  return (
    <section aria-labelledby="instance-list">
      <h3 id="instance-list" className="mb-2 font-semibold">
        <Trans>Places with settings</Trans>
      </h3>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {[
          ...groups.filter(isSetUp).map(rows),
          rest.length > 0 && (
            <li key="add" className="py-1.5">
              <Button aria-expanded={adding} onClick={() => setAdding(!adding)}>
                <Trans>Add a place</Trans>
              </Button>
              <span className="ml-3 text-meta text-fg3">
                {rest.length === 1 ? t`1 kind is not set up` : t`${rest.length} kinds are not set up`}
              </span>
            </li>
          ),
          ...(adding ? rest.map(rows) : []),
        ]}
      </ul>
    </section>
  );
}

interface PartProps {
  settings: Parameters<typeof fieldsOf>[0];
  words?: (values: Partial<Values>) => ReactNode;
  labelledBy?: string;
  button: string;
  children?: ReactNode;
}

/** Some of the settings that are of no single kind of place. */
function Part({ settings, words, ...form }: PartProps) {
  const team = useTeam();
  const client = useQueryClient();
  return (
    <SettingsForm
      {...form}
      loaded={valuesOf(settings)}
      fields={[...fieldsOf(settings), ...(words ? [{ note: words }] : [])]}
      save={saveInstance}
      onSaved={(now) => client.setQueryData(remoteKeys.instance, now)}
      refresh={[keys.executors(team.slug), placeKeys.policy(team.slug)]}
    />
  );
}

function PoolCost({ price, least }: { price: number; least: number }) {
  if (price === 0 || least === 0) return null;
  return (
    <p className="text-meta text-needs tabular-nums">
      <span aria-hidden>◆ </span>
      {poolCostWords(price, least)}
    </p>
  );
}
