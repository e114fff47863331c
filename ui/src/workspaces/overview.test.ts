import { describe, expect, it } from "vitest";
import type { Workspace } from "@/api/client";
import { forEach } from "./bulk";
import { between, cannotStart, itemsOf, nextSort, overview } from "./overview";
import { isSameView } from "./saved-views";
import { overviewSearch } from "./search";

const ws = (id: string, over: Partial<Workspace> = {}): Workspace =>
  ({
    id,
    key: id.toUpperCase(),
    name: id,
    project_id: "p1",
    project_name: "Web",
    branch: id,
    executor: "local",
    state: "ready",
    owner: { id: "u1", name: "Ada" },
    attention: null,
    agents: { state: "none", sessions: 0, running: 0, watchers: [] },
    changes: { files: 0, additions: 0, deletions: 0, version: 0 },
    steps: [],
    cost_nano: 0,
    created_at: 1,
    updated_at: 1,
    ...over,
  }) as Workspace;
const runs = (state: Workspace["agents"]["state"], agent = "codex") => ({
  agents: { state, agent, agent_name: agent, sessions: 1, running: 1, watchers: [] },
});
const list = [
  ws("item 10", { project_id: "p2", cost_nano: 5, ...runs("working") }),
  ws("item 9", { tokens_cost_nano: 9, ...runs("idle", "claude-code") }),
  ws("asks", { attention: { reason: "waiting", text: "Which colour?", at: 7 }, owner: { id: "u2", name: "Ben" } }),
];
const shown = (search: Record<string, unknown>) =>
  overview(itemsOf(list), overviewSearch(search)).map((i) => i.workspace.id);

describe("the overview", () => {
  it("has those that need a person first, or the order that was chosen", () => {
    expect(shown({})).toEqual(["asks", "item 10", "item 9"]);
    expect(shown({ sort: "name" })).toEqual(["asks", "item 9", "item 10"]);
    expect(shown({ sort: "-cost" })).toEqual(["item 9", "item 10", "asks"]);
    expect(shown({ sort: "nonsense" })).toEqual(shown({}));
  });

  it("filters by what the address says", () => {
    expect(shown({ state: "needs,idle" })).toEqual(["asks", "item 9"]);
    expect(shown({ project: "p2" })).toEqual(["item 10"]);
    expect(shown({ agent: "claude-code" })).toEqual(["item 9"]);
    expect(shown({ owner: "u2", q: "colour" })).toEqual(["asks"]);
    expect(shown({ q: 10 })).toEqual(["item 10"]);
    expect(shown({ where: "e2b" })).toEqual([]);
  });

  it("turns the order of a column at each press", () => {
    expect(nextSort(undefined, "name")).toBe("name");
    expect(nextSort("name", "name")).toBe("-name");
    expect(nextSort("-name", "name")).toBeUndefined();
    expect(nextSort("name", "cost")).toBe("-cost");
  });

  it("selects from the last one to this one", () => {
    expect(between(["a", "b", "c", "d"], "c", "a")).toEqual(["a", "b", "c"]);
    expect(between(["a", "b"], "gone", "b")).toEqual(["b"]);
  });

  it("says why an agent cannot start", () => {
    const [working, idle, asks] = itemsOf(list);
    expect(cannotStart(idle!, true)).toBe("");
    expect(cannotStart(idle!, false)).toMatch(/not allowed/);
    expect(cannotStart(working!, true)).toMatch(/at work already/);
    expect(cannotStart(asks!, true)).toBe(""); // only its attention says so: the server decides
  });

  it("knows a saved view by its filters and order", () => {
    expect(isSameView({ q: "a", as: "board" }, { q: "a" })).toBe(true);
    expect(isSameView({ q: "a" }, { q: "a", sort: "name" })).toBe(false);
  });
});

it("does something for each of many and keeps on after a failure", async () => {
  const seen: number[] = [];
  const { done, failed } = await forEach([1, 2, 3, 4, 5, 6], async (n) => {
    seen.push(n);
    if (n === 2) throw new Error("no");
  });
  expect(done.sort()).toEqual([1, 3, 4, 5, 6]);
  expect(failed.map(([n]) => n)).toEqual([2]);
  expect(seen).toHaveLength(6);
});
