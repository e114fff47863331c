import { recall, remember } from "@/state/remember";

const MOST = 20;
const key = (workspace: string) => `files.recent.${workspace}`;
const isPaths = (v: unknown): v is string[] => Array.isArray(v) && v.every((p) => typeof p === "string");

/** The files of a workspace that were opened last in this browser, the newest first. */
export const recentFiles = (workspace: string): string[] => recall(key(workspace), isPaths) ?? [];

/** Notes that a file was opened. */
export function opened(workspace: string, path: string): void {
  remember(key(workspace), [path, ...recentFiles(workspace).filter((p) => p !== path)].slice(0, MOST));
}
