import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { executorsQuery, keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { placeKeys } from "@/sandboxes/queries";
import { remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import {
  fieldsOf,
  instanceQuery,
  type PlaceSettings,
  poolCostWords,
  priceOf,
  saveInstance,
  savePlace,
  type Values,
  valuesOf,
} from "./instance-api";
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
          <div key={p.kind} className="flex flex-col gap-3">
            <PlaceForm place={p} executor={executors.data?.find((x) => x.kind === p.kind)} />
            {p.regional && <AddRegion place={p} />}
          </div>
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

const REGION = "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?";

/** Adds a region to a place: its form then stands below. */
function AddRegion({ place: p }: { place: PlaceSettings }) {
  const [name, setName] = useState("");
  const team = useTeam();
  const add = useAction({
    act: () => savePlace(`${p.kind}@${name}`, {}),
    refresh: [remoteKeys.instance, keys.executors(team.slug)],
    done: () => setName(""),
    failed: "The region was not added",
  });
  return (
    <form
      className="flex flex-wrap items-end gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (name) void add.run();
      }}
    >
      <TextField
        label={`Another region of ${p.label}`}
        hint="A short name; its address and key are entered next."
        mono
        placeholder="eu"
        pattern={REGION}
        maxLength={32}
        value={name}
        onChange={(e) => setName(e.target.value)}
      />
      <Button type="submit" disabled={!name} busy={add.busy && "Adding"}>
        Add region
      </Button>
    </form>
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
