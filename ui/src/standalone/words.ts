import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { duration, until } from "@/format/time";
import type { MarkKind } from "@/kit/mark";

export type Sandbox = Schemas["ApiSandbox"];

export const PURPOSES: [Sandbox["purpose"], string][] = [
  ["execution", t`Running code`],
  ["app", t`An app`],
  ["desktop", t`A desktop`],
];

export const purposeOf = (p: string): string => PURPOSES.find(([id]) => id === p)?.[1] ?? p;

const STATES: Record<string, { mark: MarkKind; word: string }> = {
  starting: { mark: "setup", word: t`Starting` },
  running: { mark: "running", word: t`Running` },
  paused: { mark: "idle", word: t`Paused` },
  stopping: { mark: "stopped", word: t`Stopping` },
  gone: { mark: "stopped", word: t`Stopped` },
  failed: { mark: "failed", word: t`Failed` },
};

export const stateOf = (state: string) => STATES[state] ?? { mark: "idle" as const, word: state };

/** What a sandbox is called: its key, else the end of its id. */
export const nameOf = (s: Pick<Sandbox, "key" | "id">): string => s.key || `…${s.id.slice(-6)}`;

/** When it ends: by a fixed time, or when nobody uses it. */
export function endOf(s: Pick<Sandbox, "ends_at" | "ends_by">, now: number): string {
  if (s.ends_at <= now) return t`Ends when it is no longer used`;
  if (s.ends_by !== 0 && s.ends_by <= s.ends_at) return t`Ends ${until(s.ends_by, now)}`;
  return t`Ends ${until(s.ends_at, now)} unless it is used`;
}

export interface Total {
  purpose: string;
  place: string;
  count: number;
  /** Nano-USD; undefined for those who may not see costs. */
  cost: number | undefined;
}

/** How many sandboxes there are for each purpose in each place, the most first. */
export function totals(all: readonly Pick<Sandbox, "purpose" | "executor" | "cost_nano">[]): Total[] {
  const rows = new Map<string, Total>();
  for (const s of all) {
    const id = `${s.purpose} ${s.executor}`;
    const row = rows.get(id) ?? { purpose: s.purpose, place: s.executor, count: 0, cost: undefined };
    row.count++;
    if (s.cost_nano !== undefined) row.cost = (row.cost ?? 0) + s.cost_nano;
    rows.set(id, row);
  }
  return [...rows.values()].sort((a, b) => b.count - a.count || a.purpose.localeCompare(b.purpose));
}

/** What an open sandbox of the demo still has: "9 min 30 s". */
export const left = (endsBy: number, now: number): string => duration(Math.max(0, endsBy - now));
