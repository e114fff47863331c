import { describe, expect, it } from "vitest";
import type { Workspace } from "@/api/client";
import { moved, placed } from "./pins";
import { type Row, sidebarOrder, sidebarRows, type View } from "./sidebar-rows";
import { isUnread } from "./unread";

const ws = (id: string, over: Partial<Workspace> = {}): Workspace =>
  ({
    id,
    key: id.toUpperCase(),
    name: id,
    project_id: "p1",
    project_name: "Web",
    branch: id,
    state: "ready",
    owner: { id: "u", name: "Ada" },
    attention: null,
    agents: { state: "none", sessions: 0, running: 0, watchers: [] },
    changes: { files: 0, additions: 0, deletions: 0, version: 0 },
    steps: [],
    created_at: 1,
    updated_at: 1,
    ...over,
  }) as Workspace;
const asks = (text: string, at = 1) => ({ attention: { reason: "waiting" as const, text, at } });
const view = (over: Partial<View> = {}): View => ({ by: "state", folded: [], open: [], pins: [], filter: "", ...over });
const text = (r: Row) =>
  r.kind === "group"
    ? `${r.name} ${r.count}${r.folded ? " folded" : ""}`
    : r.kind === "run"
      ? `run ${r.name} ${r.items.length}`
      : `${r.inside ? "  " : ""}${r.id}`;
const shown = (list: Workspace[], v: Partial<View> = {}) => sidebarRows(list, view(v)).map(text);

const list = [
  ws("idle"),
  ws("late", asks("Which colour?", 20)),
  ws("early", asks("May I delete it?", 10)),
  ws("x1", { run_id: "run", name: "Fix it · Codex" }),
  ws("x2", { run_id: "run", name: "Fix it · Claude Code", ...asks("Ok?", 30) }),
  ws("other", { project_id: "p2", project_name: "Api" }),
];

describe("rows of the sidebar", () => {
  it("has those that need a person first, and the attempts of a run in one row", () => {
    expect(shown(list)).toEqual(["Needs you 4", "early", "late", "run Fix it 2", "Idle 2", "idle", "other"]);
    expect(shown(list, { open: ["run"] })).toContain("  x1");
  });

  it("groups by project below those that need a person", () => {
    expect(shown(list, { by: "project" })).toEqual([
      "Needs you 4",
      "early",
      "late",
      "run Fix it 2",
      "Api 1",
      "other",
      "Web 1",
      "idle",
    ]);
  });

  it("folds groups, but not what a filter found", () => {
    expect(shown(list, { folded: ["idle"] }).slice(-1)).toEqual(["Idle 2 folded"]);
    expect(shown(list, { folded: ["needs"], filter: "COLOUR which" })).toEqual(["Needs you 1", "late"]);
    expect(shown(list, { filter: "nothing like it" })).toEqual([]);
  });

  it("has pinned ones at the top in their own order, out of their run", () => {
    expect(shown(list, { pins: ["x1", "gone", "idle"] })).toEqual([
      "Pinned 2",
      "x1",
      "idle",
      "Needs you 3",
      "early",
      "late",
      "x2",
      "Idle 1",
      "other",
    ]);
  });

  it("steps through all of them in the order shown", () => {
    const order = sidebarOrder(list, view({ folded: ["idle"], pins: ["other"] })).map((w) => w.id);
    expect(order).toEqual(["other", "early", "late", "x2", "x1", "idle"]);
  });
});

describe("pins", () => {
  it("go before another one, or to the end", () => {
    expect(placed(["a", "b", "c"], ["c"], "a")).toEqual(["c", "a", "b"]);
    expect(placed(["a", "b"], ["x"])).toEqual(["a", "b", "x"]);
    expect(placed(["a", "b"], ["a"], "a")).toEqual(["a", "b"]);
  });

  it("move past those that are not shown", () => {
    expect(moved(["a", "gone", "b"], "b", -1, (id) => id !== "gone")).toEqual(["b", "gone", "a"]);
    expect(moved(["a", "b"], "b", 1, () => true)).toEqual(["a", "b"]);
  });
});

it("is unread when something happened since one looked", () => {
  const w = ws("w", asks("?", 50));
  expect(isUnread(w, { since: 49, at: {} })).toBe(true);
  expect(isUnread(w, { since: 49, at: { w: 50 } })).toBe(false);
  expect(isUnread(w, { since: 50, at: {} })).toBe(false);
  expect(isUnread(w, { since: 50, at: { w: 0 } })).toBe(true);
  expect(isUnread(ws("w"), { since: 0, at: {} })).toBe(false);
});
