import type { Attached } from "@/agents/attachments";
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
  /** How many files go with the prompt. */
  files?: number;
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

const attached = new Map<string, readonly Attached[]>();

/** Keeps the files of a workspace's first prompt: they are too large for the browser's store, and gone after a reload. */
export function holdFiles(workspaceId: string, files: readonly Attached[]): void {
  attached.set(workspaceId, files);
}

/** Returns the files that were kept, once. */
export function takeFiles(workspaceId: string): readonly Attached[] | undefined {
  const files = attached.get(workspaceId);
  attached.delete(workspaceId);
  return files;
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
