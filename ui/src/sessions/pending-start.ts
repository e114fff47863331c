import { forget, recall, remember } from "@/state/remember";
import { Store } from "@/state/store";
import { dropFiles } from "./held-files";

/** A session to start as soon as its workspace is ready. Kept in the browser, so that a reload does not forget it. */
export interface PendingStart {
  workspaceId: string;
  agent: string;
  /** The agent's name, for people. */
  name: string;
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
  firstStarts.update((all) => ({ ...all, [p.workspaceId]: { start: p } }));
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

/** The first session of a workspace, until it is there. */
export interface FirstStart {
  start: PendingStart;
  /** When it was asked for; undefined while the workspace is made. */
  since?: number;
  /** Why it did not start. */
  error?: unknown;
}

/** The first sessions that this page waits for or that did not start, by workspace. */
export const firstStarts = new Store<Record<string, FirstStart>>(
  Object.fromEntries(pendingStarts().map((p) => [p.workspaceId, { start: p }])),
);

export const setFirstStart = (workspaceId: string, now: FirstStart | undefined): void => {
  firstStarts.update(({ [workspaceId]: _, ...rest }) => (now ? { ...rest, [workspaceId]: now } : rest));
};

/** Forgets a first session: something else is started in its place. */
export function dropFirstStart(workspaceId: string): void {
  takePendingStart(workspaceId);
  dropFiles(workspaceId);
  setFirstStart(workspaceId, undefined);
}
