import { describe, expect, it } from "vitest";
import { inTree, subagentWords } from "./subagents";

const a = (session_id: string, parent_session_id: string) => ({ session_id, parent_session_id });

describe("subagents", () => {
  it("are listed below who started them", () => {
    const all = [a("one", "top"), a("two", "top"), a("below", "one"), a("other", "elsewhere")];
    expect(inTree(all, "top").map((x) => [x.subagent.session_id, x.depth])).toEqual([
      ["one", 0],
      ["below", 1],
      ["two", 0],
    ]);
  });

  it("are counted by what they do", () => {
    expect(subagentWords([{ status: "working" }])).toBe("1 subagent, 1 working");
    expect(subagentWords([{ status: "completed" }, { status: "failed" }])).toBe("2 subagents, 1 failed");
  });
});
