import type { Workspace } from "@/api/client";
import { clock } from "@/format/time";
import type { Place, RemoteSandbox } from "./remote";
import { livesIn } from "./which";

/** A workspace's machine is not connected. */
export interface Absence {
  name: string;
  since: number | null;
  /** Why, in words; may be empty. */
  reason: string;
}

/** Whether the machine a workspace lives on is away. What is known of the place comes first: it is told at once. */
export function absence(
  w: Workspace,
  place: Place | undefined,
  sandbox: RemoteSandbox | undefined,
): Absence | undefined {
  if (!w.runner_id) return undefined;
  const there = sandbox && livesIn(sandbox) === livesIn(w) ? sandbox.machine : undefined;
  const name = w.runner_name || place?.name || there?.name || "The machine";
  if (place) {
    if (!place.offline_since) return undefined;
    return { name, since: place.offline_since, reason: there?.reason || "" };
  }
  return there && !there.online ? { name, since: there.offline_since ?? null, reason: there.reason } : undefined;
}

/** "Work Laptop is offline since 14:02". */
export const awayWords = (a: Absence, now: number): string =>
  a.since ? `${a.name} is offline since ${clock(a.since, now)}` : `${a.name} is offline`;
