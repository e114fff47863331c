import { useEffect, useSyncExternalStore } from "react";
import type { Workspace } from "@/api/client";
import { recall, remember } from "@/state/remember";
import { Store } from "@/state/store";

/** Until when this person has seen each workspace, in the server's ms; what is not listed was seen until `since`. */
export interface Seen {
  since: number;
  at: Record<string, number>;
}

/** The last thing that happened which a person should look at; 0 if there is none. */
const happened = (w: Workspace): number => w.attention?.at ?? 0;

/** Whether something happened since this person looked: an answer, a question, a failure, the end of the work. */
export const isUnread = (w: Workspace, seen: Seen): boolean =>
  happened(w) > 0 && happened(w) > (seen.at[w.id] ?? seen.since);

const isSeen = (v: unknown): v is Seen =>
  typeof v === "object" && v !== null && typeof (v as Seen).since === "number" && typeof (v as Seen).at === "object";

const stores = new Map<string, Store<Seen | undefined>>();
const keyOf = (team: string) => `seen.${team}`;

export function seenOf(team: string): Store<Seen | undefined> {
  let store = stores.get(team);
  if (!store) {
    store = new Store(recall(keyOf(team), isSeen));
    stores.set(team, store);
  }
  return store;
}

function set(team: string, next: Seen): void {
  seenOf(team).set(next);
  remember(keyOf(team), next);
}

const atOf = (list: readonly Workspace[]) => Object.fromEntries(list.map((w) => [w.id, happened(w)]));

export function markRead(team: string, list: readonly Workspace[]): void {
  const seen = seenOf(team).get();
  if (seen) set(team, { ...seen, at: { ...seen.at, ...atOf(list) } });
}

export function markUnread(team: string, list: readonly Workspace[]): void {
  const seen = seenOf(team).get();
  if (seen) set(team, { ...seen, at: { ...seen.at, ...Object.fromEntries(list.map((w) => [w.id, 0])) } });
}

const isVisible = () => document.visibilityState === "visible";
const onVisible = (changed: () => void) => {
  document.addEventListener("visibilitychange", changed);
  return () => document.removeEventListener("visibilitychange", changed);
};

/** Marks the open workspace as read while the page is visible. Everything counts as seen on the first visit with this browser. */
export function useLooking(team: string, list: readonly Workspace[] | undefined, open: Workspace | undefined): void {
  const visible = useSyncExternalStore(onVisible, isVisible);
  useEffect(() => {
    if (!list) return;
    const seen = seenOf(team).get();
    if (!seen) {
      set(team, { since: Math.max(0, ...list.map(happened)), at: {} });
      return;
    }
    if (Object.keys(seen.at).length <= list.length + 200) return;
    // Workspaces that are gone need no entry.
    const there = new Set(list.map((w) => w.id));
    set(team, { ...seen, at: Object.fromEntries(Object.entries(seen.at).filter(([id]) => there.has(id))) });
  }, [team, list]);
  const id = open?.id;
  const at = open ? happened(open) : 0;
  useEffect(() => {
    const seen = seenOf(team).get();
    if (!visible || !id || !at || !seen || (seen.at[id] ?? seen.since) >= at) return;
    set(team, { ...seen, at: { ...seen.at, [id]: at } });
  }, [team, visible, id, at]);
}
