import type { Schemas } from "@/api/client";

type Where = { kind: string; runner_id?: string | null };
type Lives = { executor: string; runner_id?: string | null };

const MACHINE = "runner";
const id = (kind: string, machine: string | null | undefined): string => (machine ? `${MACHINE}:${machine}` : kind);

/** The identity of a place. Members' machines share one executor kind, but each is its own place. */
export const placeId = (p: Where): string => id(p.kind, p.runner_id);

/** The place something lives in, as placeId tells it. */
export const livesIn = (w: Lives): string => id(w.executor, w.runner_id);

/** A place in API requests. "" is passed as is: it means inherit. */
export function placeBody(place: string): { executor: string; runner_id?: string } {
  return place.startsWith(`${MACHINE}:`)
    ? { executor: MACHINE, runner_id: place.slice(MACHINE.length + 1) }
    : { executor: place };
}

export const findPlace = <P extends Where>(places: readonly P[] | undefined, w: Lives): P | undefined =>
  places?.find((p) => placeId(p) === livesIn(w));

interface Usable extends Where {
  available: boolean;
  allowed: boolean;
  default: boolean;
}

/**
 * The place a new workspace starts with, "" when its maker has to say. The server's suggestion counts: it knows which machines are
 * connected and what was chosen last in the project. Without one, what this browser remembers.
 */
export function firstPlace(
  places: readonly Usable[] | undefined,
  suggested: Schemas["SuggestedPlace"] | undefined,
  last: string | undefined,
): string {
  const usable = places?.filter((p) => p.available && p.allowed) ?? [];
  const has = (place: string | undefined) => usable.some((p) => placeId(p) === place);
  const said = suggested && livesIn(suggested);
  // The user must choose, unless it is the place they chose last time.
  if (suggested?.ask) return said === last && has(last) ? said! : "";
  if (said && has(said)) return said;
  const found = usable.find((p) => placeId(p) === last) ?? usable.find((p) => p.default) ?? usable[0];
  return found ? placeId(found) : "";
}
