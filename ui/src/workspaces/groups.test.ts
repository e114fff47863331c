import { describe, expect, it } from "vitest";
import type { Workspace } from "@/api/client";
import { grouped, standing } from "./groups";

let n = 0;
const ws = (over: Partial<Workspace>): Workspace => ({
  id: `ws_${++n}`,
  key: `PW-${n}`,
  name: "x",
  project_id: "p",
  project_name: "p",
  branch: "b",
  base: "main",
  base_commit: "",
  executor: "local",
  state: "ready",
  state_reason: "",
  path: "",
  steps: [],
  sandbox: null,
  cost_nano: 0,
  grace: null,
  private: false,
  owner: { id: "usr_1", name: "Ada" },
  attention: null,
  agents: { state: "none", sessions: 0, running: 0, watchers: [] },
  changes: { files: 0, additions: 0, deletions: 0, version: 0 },
  merged_at: null,
  merged_commit: "",
  snapshot: null,
  created_by: "",
  created_at: n,
  updated_at: n,
  archived_at: null,
  deleted_at: null,
  ...over,
});
const agents = (state: Workspace["agents"]["state"]) => ({ state, sessions: 1, running: 1, watchers: [] });
const why = (reason: "waiting" | "failed" | "conflict" | "finished" | "stuck", at = 1) => ({ reason, text: "t", at });

describe("standing", () => {
  it.each([
    [ws({ state: "creating" }), "setup"],
    [ws({ state: "failed" }), "failed"],
    [ws({ attention: why("waiting") }), "needs"],
    [ws({ attention: why("stuck") }), "stuck"],
    [ws({ attention: why("finished"), changes: { files: 2, additions: 1, deletions: 1, version: 1 } }), "review"],
    [ws({ agents: agents("working") }), "running"],
    [ws({ agents: agents("idle") }), "idle"],
    [ws({ agents: agents("lost") }), "failed"],
    [ws({ agents: agents("exited") }), "done"],
    [ws({ merged_at: 5, agents: agents("exited") }), "done"],
    [ws({ merged_at: 5, agents: agents("working") }), "running"],
    [ws({ deleted_at: 5, attention: why("waiting") }), "done"],
  ] as const)("%#: %s", (w, group) => expect(standing(w).group).toBe(group));

  it("orders by who needs attention, longest waiting first", () => {
    const a = ws({ attention: why("waiting", 20) });
    const b = ws({ attention: why("waiting", 10) });
    const list = [
      ws({}),
      ws({ agents: agents("working") }),
      a,
      ws({ attention: why("stuck") }),
      ws({ state: "failed" }),
      b,
    ];
    const out = grouped(list);
    expect(out.map((g) => g.group)).toEqual(["needs", "failed", "stuck", "running", "idle"]);
    expect(out[0]!.items.map((i) => i.workspace.id)).toEqual([b.id, a.id]);
  });
});
