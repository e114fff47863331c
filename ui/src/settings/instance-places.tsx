import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { executorsQuery, keys } from "@/api/queries";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { placeKeys } from "@/sandboxes/queries";
import { remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import { fieldsOf, instanceQuery, poolCostWords, priceOf, saveInstance, type Values, valuesOf } from "./instance-api";
import { PlaceForm } from "./place-form";

/** What operators say of the places of the whole server. What config.json says is shown and cannot be changed here. */
export default function InstancePlacesSettings() {
  const team = useTeam();
  const settings = useQuery(instanceQuery());
  const executors = useQuery(executorsQuery(team.slug));
  if (settings.isPending) return <Skeleton rows={5} label="Loading the server's places" />;
  if (settings.isError && !settings.data)
    return (
      <Failure
        what="The server's places could not be loaded."
        error={settings.error}
        retry={() => void settings.refetch()}
      />
    );
  const { places, settings: all } = settings.data;
  const isPool = (s: { name: string }) => s.name.startsWith("pool.");
  const paid = executors.data?.find((x) => !x.runner_id && priceOf(x) > 0);
  return (
    <section aria-labelledby="instance-places" className="flex flex-col gap-7">
      <div>
        <h2 id="instance-places" className="mb-1 text-title font-semibold">
          The whole server
        </h2>
        <p className="text-fg2">For operators. A value with a lock is set in config.json or the environment.</p>
      </div>
      <Part settings={all.filter((s) => !isPool(s))} button="Save for the server" />
      {places
        .filter((p) => p.settings.length > 0)
        .map((p) => (
          <PlaceForm key={p.kind} place={p} executor={executors.data?.find((x) => x.kind === p.kind)} />
        ))}
      <Part
        labelledBy="instance-pool"
        settings={all.filter(isPool)}
        words={(v) => <PoolCost price={priceOf(paid)} least={v["pool.enabled"] ? Number(v["pool.min"] ?? 0) : 0} />}
        button="Save the pool"
      >
        <h3 id="instance-pool" className="font-semibold">
          Sandboxes made ahead of time
        </h3>
      </Part>
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
