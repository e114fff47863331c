import { recall, remember } from "@/state/remember";
import { Store } from "@/state/store";
import type { GroupBy } from "./sidebar-rows";

/** How this person has the sidebar in this browser. */
export interface SidebarView {
  shown: boolean;
  width: number; // px
  by: GroupBy;
  folded: string[];
  /** Runs whose attempts are unfolded. */
  open: string[];
}

const KEY = "sidebar";
const isView = (v: unknown): v is Partial<SidebarView> => typeof v === "object" && v !== null;

export const WIDTH = { usual: 248, least: 180, most: 520 };

function load(): SidebarView {
  const v = recall(KEY, isView) ?? {};
  const ids = (x: unknown) => (Array.isArray(x) ? x.filter((id): id is string => typeof id === "string") : []);
  return {
    shown: v.shown !== false,
    width: inRange(Number(v.width) || WIDTH.usual),
    by: v.by === "project" ? "project" : "state",
    folded: ids(v.folded),
    open: ids(v.open),
  };
}

export const inRange = (px: number): number => Math.round(Math.min(WIDTH.most, Math.max(WIDTH.least, px)));

export const sidebarView = new Store<SidebarView>(load());

/** Whether the field that filters it is shown because somebody asked for it. */
export const filtering = new Store(false);

export function setSidebar(change: Partial<SidebarView>): void {
  const next = { ...sidebarView.get(), ...change };
  sidebarView.set(next);
  remember(KEY, next);
}

const LONGEST = 500; // ids of what is long gone are forgotten

/** Puts an id into a list, or takes it out. */
export const toggled = (list: readonly string[], id: string): string[] =>
  list.includes(id) ? list.filter((x) => x !== id) : [...list, id].slice(-LONGEST);
