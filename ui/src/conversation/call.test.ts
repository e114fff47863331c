import { describe, expect, it } from "vitest";
import { callOf } from "./call";

const RUN = "code_06h1q4244c00f6sghksang6zsv";

describe("calls of Parawork's tools", () => {
  it("are found by the names of all agents", () => {
    const input = JSON.stringify({ code: "x = 1\nx", language: "javascript" }, null, 2);
    for (const tool of ["mcp__parawork__run_code", "parawork.run_code", "run_code"])
      expect(callOf({ tool, input, output: `code_of_mine\n1\n[${RUN}]` })).toMatchObject({
        tool: "run_code",
        code: "x = 1\nx",
        language: "javascript",
        run: RUN,
      });
  });
  it("are not confused with tools of others", () => {
    expect(callOf({ tool: "mcp__other__run_code", input: "{}", output: `[${RUN}]` })).toBeUndefined();
    for (const tool of ["Bash", "grep", "run_shell_command", "web_search"])
      expect(callOf({ tool, input: "", output: "" })).toBeUndefined();
    expect(callOf({ tool: "parawork.task_list", input: "{}", output: `[${RUN}]` })?.run).toBeUndefined();
  });
  it("survive arguments that were cut", () => {
    expect(callOf({ tool: "parawork.run_code", input: '{"code": "x', output: "" })).toMatchObject({
      code: "",
      run: undefined,
    });
  });
});
