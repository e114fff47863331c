import type { Price } from "./operator-api";

/** The price book of one place: what holds now, what will, and what held, newest first. */
export interface Book {
  executor: string;
  now: Price | undefined;
  coming: Price[];
  past: Price[];
}

/** The rows of the book by place, in the order of the places' names. */
export function books(prices: readonly Price[], at: number): Book[] {
  const by = new Map<string, Price[]>();
  for (const p of prices) by.set(p.executor, [...(by.get(p.executor) ?? []), p]);
  return [...by.entries()]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([executor, rows]) => {
      const newest = [...rows].sort((a, b) => b.effective_from - a.effective_from || b.created_at - a.created_at);
      const began = newest.filter((p) => p.effective_from <= at);
      return {
        executor,
        now: began[0],
        past: began.slice(1),
        coming: newest.filter((p) => p.effective_from > at).reverse(),
      };
    });
}

/** What an hour of a size costs, as the ledger counts it: whole nano-USD for a second, 3,600 of them. */
export const hourOf = (
  p: Pick<Price, "vcpu_second_nano" | "gib_second_nano">,
  cpus: number,
  memoryMb: number,
): number => Math.round(3600 * (p.vcpu_second_nano * cpus + (p.gib_second_nano * memoryMb) / 1024));
