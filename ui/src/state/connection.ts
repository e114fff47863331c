import type { EventsState } from "@/api/events";
import { Store } from "./store";

/** What the thin bar at the top says about the connection. */
export interface Connection {
  events: EventsState;
  /** Bytes of terminal output caught up after the last cut, shown for a moment; -1 when there is nothing to say. */
  replayed: number;
}

export const connection = new Store<Connection>({
  events: { phase: "connecting", retryAt: 0, downSince: 0 },
  replayed: -1,
});

let clear: ReturnType<typeof setTimeout> | undefined;

/** Notes that a cut connection is back and how much output was caught up. Several terminals add up. */
export function noteBack(bytes: number): void {
  connection.update((c) => ({ ...c, replayed: Math.max(0, c.replayed) + bytes }));
  clearTimeout(clear);
  clear = setTimeout(() => connection.update((c) => ({ ...c, replayed: -1 })), 2000);
}

/** Set by the page that holds the events socket: tries to connect at once. */
export const tryNow = new Store<() => void>(() => {});
