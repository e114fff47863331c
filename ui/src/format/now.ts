import { useSyncExternalStore } from "react";

const tickers = new Map<number, { now: number; listeners: Set<() => void>; timer?: ReturnType<typeof setInterval> }>();

/** The current time, updated every `every` ms; all callers with the same interval share one timer. */
export function useNow(every = 30_000): number {
  let ticker = tickers.get(every);
  if (!ticker) {
    ticker = { now: Date.now(), listeners: new Set() };
    tickers.set(every, ticker);
  }
  const t = ticker;
  return useSyncExternalStore(
    (listener) => {
      t.listeners.add(listener);
      t.timer ??= setInterval(() => {
        t.now = Date.now();
        for (const notify of t.listeners) notify();
      }, every);
      return () => {
        t.listeners.delete(listener);
        if (t.listeners.size === 0) {
          clearInterval(t.timer);
          t.timer = undefined;
        }
      };
    },
    () => {
      // Without a running timer the stored time may be old; a coarse clock keeps the snapshot stable within a pace.
      if (t.timer === undefined && Date.now() - t.now >= every) t.now = Date.now();
      return t.now;
    },
  );
}
