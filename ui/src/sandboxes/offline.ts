import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";
import { clock } from "@/format/time";
import type { Place, RemoteSandbox } from "./remote";
import { livesIn } from "./which";

/** A workspace's machine is not connected. */
export interface OfflineMachine {
  name: string;
  since: number | null;
  /** Why, in words; may be empty. */
  reason: string;
}

/** Whether a workspace's machine is offline. Prefers the list of places, because events update it immediately. */
export function offlineMachine(
  w: Workspace,
  place: Place | undefined,
  sandbox: RemoteSandbox | undefined,
): OfflineMachine | undefined {
  if (!w.runner_id) return undefined;
  const there = sandbox && livesIn(sandbox) === livesIn(w) ? sandbox.machine : undefined;
  const name = w.runner_name || place?.name || there?.name || t`The machine`;
  if (place) {
    if (!place.offline_since) return undefined;
    return { name, since: place.offline_since, reason: there?.reason || "" };
  }
  return there && !there.online ? { name, since: there.offline_since ?? null, reason: there.reason } : undefined;
}

/** "Work Laptop has been offline since 14:02". */
export const offlineWords = (a: OfflineMachine, now: number): string =>
  a.since ? t`${a.name} has been offline since ${clock(a.since, now)}` : t`${a.name} is offline`;
