import { recall, remember } from "@/state/remember";
import { Store } from "@/state/store";
import { type OverviewSearch, overviewSearch } from "./search";

/** Filters and order under a name, for this person in this browser. */
export interface SavedView {
  name: string;
  search: OverviewSearch;
}

const stores = new Map<string, Store<readonly SavedView[]>>();
const keyOf = (team: string) => `views.${team}`;

function read(v: unknown): SavedView[] {
  if (!Array.isArray(v)) return [];
  return v.flatMap((x: Partial<SavedView> | null) =>
    typeof x?.name === "string" && typeof x.search === "object"
      ? [{ name: x.name, search: overviewSearch({ ...x.search }) }]
      : [],
  );
}

export function viewsOf(team: string): Store<readonly SavedView[]> {
  let store = stores.get(team);
  if (!store) {
    store = new Store<readonly SavedView[]>(read(recall(keyOf(team), Array.isArray)));
    stores.set(team, store);
  }
  return store;
}

function set(team: string, views: readonly SavedView[]): void {
  viewsOf(team).set(views);
  remember(keyOf(team), views);
}

/** Saves the filters and the order under a name; a view of that name is replaced. */
export const saveView = (team: string, name: string, search: OverviewSearch): void =>
  set(team, [
    ...viewsOf(team)
      .get()
      .filter((v) => v.name !== name),
    { name, search: { ...search, show: undefined } },
  ]);

export const dropView = (team: string, name: string): void =>
  set(
    team,
    viewsOf(team)
      .get()
      .filter((v) => v.name !== name),
  );

const text = (s: OverviewSearch) =>
  JSON.stringify(
    Object.entries({ ...s, as: undefined, show: undefined })
      .filter(([, v]) => v)
      .sort(),
  );

/** Whether two addresses show the same workspaces in the same order. */
export const isSameView = (a: OverviewSearch, b: OverviewSearch): boolean => text(a) === text(b);

const AS = "workspaces.as";
const isAs = (v: unknown): v is "table" | "board" => v === "table" || v === "board";

/** Table or board: as the address says, else as it was last. */
export const asOf = (s: OverviewSearch): "table" | "board" => s.as ?? recall(AS, isAs) ?? "table";

export const rememberAs = (as: "table" | "board"): void => remember(AS, as);
