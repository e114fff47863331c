import type { UseQueryResult } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { Choice } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { sentence } from "@/places/words";

type Executor = Schemas["Executor"];

interface Props {
  places: Executor[];
  value: string;
  onChange: (kind: string) => void;
  error?: string;
  legend?: string;
  name?: string;
}

/** Where a workspace lives, each place with its boundary in words; one that cannot be used says why and what would help. */
export function Place({ places, value, onChange, error, legend = "Place", name = "executor" }: Props) {
  return (
    <div>
      <Choice
        name={name}
        legend={legend}
        value={value}
        onChange={onChange}
        options={places.map((e) => ({
          value: e.kind,
          disabled: !e.available || !e.allowed,
          label: (
            <>
              <span>{e.name}</span>
              {!e.isolated && e.available && e.allowed && <span className="text-meta text-needs">not isolated</span>}
              {e.boundary_name !== e.name && e.isolated && (
                <span className="text-meta text-fg3">{e.boundary_name}</span>
              )}
              {e.price_nano_per_hour > 0 && (
                <span className="text-meta text-fg3">${(e.price_nano_per_hour / 1e9).toFixed(2)} an hour</span>
              )}
            </>
          ),
          hint: hint(e),
        }))}
      />
      {error && <p className="mt-1 text-meta text-failed">{error}</p>}
    </div>
  );
}

/** What a place promises, or why it cannot be chosen. */
function hint(e: Executor): string {
  if (!e.available) return [sentence(e.reason), sentence(e.cure)].filter(Boolean).join(" ");
  if (!e.allowed) return sentence(e.forbidden || "your team asks for a stronger boundary");
  const more = [
    e.limits ? "limits are kept" : "limits are not kept",
    e.network ? "the network is bound" : "the whole network is open",
    e.start,
  ].filter(Boolean);
  return [`${e.isolation.replace(/\.$/, "")}; ${more.join(", ")}.`, e.warning].filter(Boolean).join(" ");
}

/** The same while the places are looked for. */
export function PlaceChoice({ query, ...rest }: Omit<Props, "places"> & { query: UseQueryResult<Executor[]> }) {
  if (query.isPending) return <Skeleton rows={2} label="Looking where workspaces can live" />;
  if (query.isError && !query.data)
    return <Failure what="The places could not be listed." error={query.error} retry={() => void query.refetch()} />;
  return <Place places={query.data} {...rest} />;
}
