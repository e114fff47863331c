import { describe, expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { joined } from "./rows";

type Item = Schemas["TimelineItem"];

const snapshot = (id: string, at: number, more: Partial<Schemas["WorkspaceSnapshot"]>): Item => ({
  type: "snapshot",
  at,
  snapshot: {
    id,
    at,
    kind: "commit",
    reason: "",
    title: id,
    session_id: null,
    commit: "",
    head: id,
    base_commit: "",
    files: 1,
    additions: 0,
    deletions: 0,
    missing: [],
    ignored_files: 0,
    pinned: false,
    expires_at: null,
    ...more,
  },
});
const activity = (id: string, at: number, kind: string, data: Record<string, unknown> = {}): Item => ({
  type: "activity",
  at,
  activity: { id, at, actor_id: "u", actor_name: "Mika", kind, text: id, data },
});
const ids = (items: Item[]) => joined(items).map((r) => [r.snapshot?.id, r.activity?.id].filter(Boolean).join("+"));

describe("rows of the timeline", () => {
  test("a commit is one row, with who made it", () => {
    expect(ids([snapshot("abc", 20, {}), activity("made", 10, "commit", { commit: "abc" })])).toEqual(["abc+made"]);
  });
  test("an update is one row with the state it led to", () => {
    expect(ids([snapshot("abc", 20, {}), activity("updated", 10, "update", { head: "abc" })])).toEqual(["abc+updated"]);
  });
  test("a merge finished manually appears once, and an aborted update stays separate", () => {
    expect(ids([snapshot("abc", 2_000, {}), activity("finished", 1_000, "update")])).toEqual(["abc+finished"]);
    expect(ids([snapshot("abc", 90_000, {}), activity("gave up", 1_000, "update")])).toEqual(["abc", "gave up"]);
    expect(ids([activity("gave up", 3_000, "update"), snapshot("abc", 2_000, {})])).toEqual(["gave up", "abc"]);
  });
  test("the same commit with the same files appears once, a pinned one or other files always", () => {
    const first = snapshot("first", 10, { head: "abc" });
    expect(ids([snapshot("second", 20, { head: "abc", files: 0 }), first])).toEqual(["first"]);
    expect(ids([snapshot("second", 20, { head: "abc", files: 2 }), first])).toEqual(["second", "first"]);
    expect(ids([snapshot("second", 20, { head: "abc", files: 0, pinned: true }), first])).toEqual(["second", "first"]);
  });
  test("a merge into the base is no commit of the branch", () => {
    expect(ids([activity("merged", 30, "merge", { head: "abc", commit: "def" }), snapshot("abc", 20, {})])).toEqual([
      "merged",
      "abc",
    ]);
  });
});
