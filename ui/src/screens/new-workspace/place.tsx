import type { UseQueryResult } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { Choice } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";

interface Props {
  query: UseQueryResult<Schemas["Executor"][]>;
  value: string;
  onChange: (kind: string) => void;
  error?: string;
}

/** Where the workspace lives, each place with its isolation in words; one that cannot be used says why and what would help. */
export function Place({ query, value, onChange, error }: Props) {
  if (query.isPending) return <Skeleton rows={2} label="Looking where workspaces can live" />;
  if (query.isError && !query.data)
    return <Failure what="The places could not be listed." error={query.error} retry={() => void query.refetch()} />;
  return (
    <div>
      <Choice
        name="executor"
        legend="Place"
        value={value}
        onChange={onChange}
        options={query.data.map((e) => ({
          value: e.kind,
          disabled: !e.available,
          label: (
            <>
              <span>{e.name}</span>
              {!e.isolated && e.available && <span className="text-meta text-needs">not isolated</span>}
              {e.price_nano_per_hour > 0 && (
                <span className="text-meta text-fg3">${(e.price_nano_per_hour / 1e9).toFixed(2)} an hour</span>
              )}
            </>
          ),
          hint: e.available ? e.isolation : [e.reason, e.cure].filter(Boolean).join(" "),
        }))}
      />
      {error && <p className="mt-1 text-meta text-failed">{error}</p>}
    </div>
  );
}
