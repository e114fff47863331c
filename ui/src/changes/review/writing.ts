import type { SideName } from "@/changes/diff/types";
import { forget, recall, remember } from "@/state/remember";
import { Store } from "@/state/store";

/** A comment that is being written: it is kept in this browser until it is added. */
export interface Writing {
  key: string;
  path: string;
  side: SideName;
  line: number;
  end_line: number;
  /** Of the shown side, so that what is quoted is what was read. */
  revision: string;
  text: string;
}

const stores = new Map<string, Store<readonly Writing[]>>();
const keyOf = (workspace: string) => `review.writing.${workspace}`;

const isWriting = (v: unknown): v is Writing[] =>
  Array.isArray(v) &&
  v.every(
    (w) =>
      typeof w === "object" &&
      w !== null &&
      typeof w.key === "string" &&
      typeof w.path === "string" &&
      (w.side === "old" || w.side === "new") &&
      typeof w.line === "number" &&
      typeof w.end_line === "number" &&
      typeof w.revision === "string" &&
      typeof w.text === "string",
  );

/** Comments being written in a workspace. Empty ones are dropped when the page is left. */
export function writingIn(workspace: string): Store<readonly Writing[]> {
  let s = stores.get(workspace);
  if (!s) {
    s = new Store<readonly Writing[]>((recall(keyOf(workspace), isWriting) ?? []).filter((w) => w.text.trim() !== ""));
    stores.set(workspace, s);
  }
  return s;
}

function save(workspace: string, all: readonly Writing[]): void {
  writingIn(workspace).set(all);
  const some = all.filter((w) => w.text.trim() !== "");
  if (some.length > 0) remember(keyOf(workspace), some);
  else forget(keyOf(workspace));
}

export function begin(workspace: string, w: Omit<Writing, "key" | "text">): string {
  const key = `write:${w.side}:${w.line}-${w.end_line}:${w.path}`;
  const all = writingIn(workspace).get();
  if (!all.some((x) => x.key === key)) save(workspace, [...all, { ...w, key, text: "" }]);
  return key;
}

/** A side as the server knows it. What is not named is what is read when it is not said: the base, or what is there now. */
export const revisionOf = (side: { commit: string }): string | undefined =>
  /^[0-9a-f]{40,64}$/.test(side.commit) ? side.commit : undefined;

export function type(workspace: string, key: string, text: string): void {
  save(
    workspace,
    writingIn(workspace)
      .get()
      .map((w) => (w.key === key ? { ...w, text } : w)),
  );
}

export function end(workspace: string, key: string): void {
  save(
    workspace,
    writingIn(workspace)
      .get()
      .filter((w) => w.key !== key),
  );
}
