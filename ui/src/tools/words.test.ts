import { describe, expect, it } from "vitest";
import { callerOf, groupCost, listedWith, switched, type ToolGroup } from "./words";

const group = (name: string, tools: number, listed: number, context_tokens: number): ToolGroup => ({
  name,
  title: name,
  description: "",
  enabled: false,
  default: false,
  listed,
  context_tokens,
  tools: Array.from({ length: tools }, (_, i) => ({
    name: `${name}_${i}`,
    title: "",
    listed: i < listed,
    context_tokens: 1,
  })),
});

describe("groups of tools", () => {
  it("says what a group costs", () => {
    expect(groupCost(group("a", 3, 3, 450))).toBe("3 tools listed, about 450 tokens");
    expect(groupCost(group("a", 4, 1, 90))).toBe("1 tool listed, 3 not listed, about 90 tokens");
    expect(groupCost(group("a", 2, 0, 0))).toBe("2 tools, not listed");
  });

  it("counts only the groups that are on", () => {
    const all = [group("a", 3, 2, 100), group("b", 5, 5, 300), group("c", 1, 0, 0)];
    expect(listedWith(all, ["a", "c"])).toEqual({ listed: 2, tokens: 100 });
    expect(listedWith(all, switched(["a", "c"], "b", true))).toEqual({ listed: 7, tokens: 400 });
    expect(listedWith(all, switched(["a", "c"], "a", false))).toEqual({ listed: 0, tokens: 0 });
    expect(switched(["a"], "a", true)).toEqual(["a"]);
  });
});

describe("calls of tools", () => {
  it("names who called", () => {
    expect(callerOf({ agent: "codex", client: "codex-mcp" })).toBe("codex");
    expect(callerOf({ agent: "", client: "api" })).toBe("api");
    expect(callerOf({ agent: "", client: "" })).toBe("a person");
  });
});
