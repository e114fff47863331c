import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, Suspense, useState } from "react";
import type { Schemas } from "@/api/client";
import { plain, sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Choice } from "@/kit/field";
import { lazy } from "@/kit/part";
import { Failure, Skeleton } from "@/kit/states";
import { machineListQuery } from "@/machines/api";
import { Danger } from "@/machines/danger";
import { useTeam } from "@/state/team";
import type { Place as PlaceInfo } from "./remote";
import { chosenSize, costWords } from "./remote-words";
import { placeId } from "./which";

const PlaceTerms = lazy(() => import("./terms"));

interface Props {
  places: PlaceInfo[];
  /** As placeId tells it; "" = none is chosen. */
  value: string;
  onChange: (place: string) => void;
  error?: string;
  legend?: ReactNode;
  name?: string;
  /** A first row to inherit the place. */
  above?: { label: string; hint: string };
  /** The chosen size, as sizeId tells it; undefined: the place's own. Absent: no size can be chosen here. */
  size?: string;
  onSize?: (id: string) => void;
  /** Whether it may start on this server when the place cannot serve. Absent: not asked here. */
  fallback?: boolean;
  onFallback?: (yes: boolean) => void;
  readOnly?: boolean;
  /** Places that cannot be used stand behind a button. */
  fold?: boolean;
}

/** Chooses a place. Each row describes its isolation; an unavailable one says why and what to do. */
export function Place({
  places,
  value,
  onChange,
  error,
  legend = t`Place`,
  name = "executor",
  above,
  size,
  onSize,
  fallback,
  onFallback,
  readOnly,
  fold,
}: Props) {
  const [all, setAll] = useState(false);
  const chosen = places.find((e) => placeId(e) === value);
  const folded = all ? [] : foldable(places, value, fold);
  const terms = chosen && ((onSize && chosen.sizes.length > 0) || (onFallback && chosen.own_disk && chosen.fallback));
  return (
    <div>
      <Choice
        name={name}
        legend={legend}
        value={value}
        onChange={onChange}
        options={[
          ...(above ? [{ value: "", label: above.label, hint: above.hint, disabled: readOnly }] : []),
          ...(folded.length > 0 ? places.filter((e) => !folded.includes(e)) : places).map((e) => ({
            value: placeId(e),
            disabled: readOnly || !e.available || !e.allowed,
            label: <Label place={e} cost={costWords(e, chosenSize(e, placeId(e) === value ? size : undefined))} />,
            hint: hint(e),
          })),
        ]}
      />
      {folded.length > 0 && (
        <Button look="quiet" className="mt-1" onClick={() => setAll(true)}>
          {folded.length === 1
            ? t`More: 1 place that cannot be used now`
            : t`More: ${folded.length} places that cannot be used now`}
        </Button>
      )}
      {error && <p className="mt-1 text-meta text-failed">{error}</p>}
      {terms && (
        <Suspense fallback={<Skeleton rows={2} label={t`Loading the sizes`} />}>
          <PlaceTerms
            key={placeId(chosen)}
            place={chosen}
            places={places}
            size={size}
            onSize={onSize}
            fallback={fallback}
            onFallback={onFallback}
            onPlace={readOnly ? undefined : onChange}
          />
        </Suspense>
      )}
    </div>
  );
}

/** Places that cannot be used and would only be in the way: the server's own, when there are several of them; all where they fold. */
function foldable(places: readonly PlaceInfo[], value: string, fold = false): PlaceInfo[] {
  const out = places.filter(
    (e) =>
      placeId(e) !== value &&
      (fold ? (!e.available && !e.regions?.some((r) => r.available)) || !e.allowed : !e.available && !e.runner_id),
  );
  return out.length > (fold ? 0 : 2) && out.length < places.length ? out : [];
}

function Label({ place: e, cost }: { place: PlaceInfo; cost: string }) {
  return (
    <>
      <span className="break-words">{e.name}</span>
      {e.dangerous && <Danger />}
      {e.runner_id && e.owner && <span className="text-meta text-fg3">{e.owner}</span>}
      {!e.isolated && !e.dangerous && e.available && e.allowed && (
        <span className="text-meta text-needs">
          <Trans>not isolated</Trans>
        </span>
      )}
      {e.boundary_name !== e.name && e.isolated && <span className="text-meta text-fg3">{e.boundary_name}</span>}
      {cost && <span className="text-meta text-fg2 tabular-nums">{cost}</span>}
    </>
  );
}

/** A place's guarantees, or why it cannot be chosen. */
function hint(e: PlaceInfo): string {
  if (!e.available) return plain([sentence(e.reason), sentence(e.hint)].filter(Boolean).join(" "));
  if (!e.allowed) return sentence(e.forbidden || t`your team requires stronger isolation`);
  const more = [
    e.limits ? t`limits enforced` : t`limits not enforced`,
    e.network ? t`network restricted` : t`network unrestricted`,
    e.start,
  ].filter(Boolean);
  return [`${e.isolation.replace(/\.$/, "")}; ${more.join(", ")}.`, e.warning].filter(Boolean).join(" ");
}

/** A place can be chosen while one of its regions can: which one is asked next. */
const withRegions = (e: PlaceInfo): PlaceInfo => (e.regions?.some((r) => r.available) ? { ...e, available: true } : e);

type List = UseQueryResult<Schemas["ExecutorList"]>;

/** The same for a new workspace, while the places are looked for, too. */
export function PlaceChoice({ query, ...rest }: Omit<Props, "places"> & { query: List }) {
  const team = useTeam();
  const connectable = useQuery(machineListQuery(team.slug)).data?.enabled;
  if (query.isPending) return <Skeleton rows={2} label={t`Loading the places`} />;
  if (query.isError && !query.data)
    return <Failure what={t`The places could not be loaded.`} error={query.error} retry={() => void query.refetch()} />;
  const { items, suggested } = query.data;
  const machines = items.filter((e) => e.runner_id);
  return (
    <div>
      <Place places={items.filter((e) => !e.region_of).map(withRegions)} {...rest} />
      {suggested?.ask && rest.value === "" ? (
        <p className="mt-1 text-needs">
          <span aria-hidden>◆ </span>
          <Trans>{sentence(suggested.reason || t`several machines are connected`)} Choose one.</Trans>
        </p>
      ) : (
        suggested?.reason && <p className="mt-1 text-meta text-fg3">{sentence(suggested.reason)}</p>
      )}
      {connectable && (
        <Link
          to="/$team/machines"
          params={{ team: team.slug }}
          search={{ connect: true }}
          className="mt-1 inline-block min-h-6 text-meta leading-6 text-accent hover:underline"
        >
          {machines.length > 0 ? t`Connect another machine` : t`Connect your own machine`}
        </Link>
      )}
    </div>
  );
}
