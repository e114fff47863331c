import { forget, recall, remember } from "@/state/remember";

/** A session to start as soon as its workspace is ready. Kept in the browser, so that a reload does not forget it. */
export interface PendingStart {
  workspaceId: string;
  agent: string;
  prompt: string;
  argv?: string[];
  account?: string;
  permissions?: "ask" | "all";
  confirmed?: boolean;
  at: number;
}

const KEY = "pending-starts";
const OLD = 24 * 3_600_000;

const isList = (v: unknown): v is PendingStart[] =>
  Array.isArray(v) && v.every((p) => typeof p?.workspaceId === "string" && typeof p?.agent === "string");

export function pendingStarts(now = Date.now()): PendingStart[] {
  return (recall(KEY, isList) ?? []).filter((p) => now - p.at < OLD);
}

export function addPendingStart(p: PendingStart): void {
  remember(KEY, [...pendingStarts().filter((x) => x.workspaceId !== p.workspaceId), p]);
}

export function takePendingStart(workspaceId: string): PendingStart | undefined {
  const all = pendingStarts();
  const found = all.find((p) => p.workspaceId === workspaceId);
  if (!found) return undefined;
  const rest = all.filter((p) => p !== found);
  if (rest.length > 0) remember(KEY, rest);
  else forget(KEY);
  return found;
}
