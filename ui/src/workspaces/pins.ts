import { recall, remember } from "@/state/remember";
import { Store } from "@/state/store";

const isIds = (v: unknown): v is string[] => Array.isArray(v) && v.every((x) => typeof x === "string");

const stores = new Map<string, Store<readonly string[]>>();
const keyOf = (team: string) => `pins.${team}`;

/** The ids of the workspaces this person has pinned in this browser, in their order. */
export function pinsOf(team: string): Store<readonly string[]> {
  let store = stores.get(team);
  if (!store) {
    store = new Store<readonly string[]>(recall(keyOf(team), isIds) ?? []);
    stores.set(team, store);
  }
  return store;
}

/** Pins workspaces before another pinned one; without one at the end. Those that are pinned already move there. */
export function placed(pins: readonly string[], ids: readonly string[], before?: string): string[] {
  if (before !== undefined && ids.includes(before)) return [...pins];
  const rest = pins.filter((id) => !ids.includes(id));
  const at = before === undefined ? -1 : rest.indexOf(before);
  return at < 0 ? [...rest, ...ids] : [...rest.slice(0, at), ...ids, ...rest.slice(at)];
}

/** One place up or down among the pinned ones that are shown. */
export function moved(pins: readonly string[], id: string, by: -1 | 1, shown: (id: string) => boolean): string[] {
  const seen = pins.filter(shown);
  const other = seen[seen.indexOf(id) + by];
  if (other === undefined) return [...pins];
  return pins.map((p) => (p === id ? other : p === other ? id : p));
}

function set(team: string, next: readonly string[]): void {
  pinsOf(team).set(next);
  remember(keyOf(team), next);
}

export const pin = (team: string, ids: readonly string[], before?: string): void =>
  set(team, placed(pinsOf(team).get(), ids, before));

export const unpin = (team: string, ids: readonly string[]): void =>
  set(
    team,
    pinsOf(team)
      .get()
      .filter((id) => !ids.includes(id)),
  );

export const movePin = (team: string, id: string, by: -1 | 1, shown: (id: string) => boolean): void =>
  set(team, moved(pinsOf(team).get(), id, by, shown));
