import { expect, test } from "vitest";
import { about, agentsOf } from "./words";

const env = { kind: "env" as const, target: "", username: "", in_sandbox: true, agents: [], last_four: "" };

test("a secret in words", () => {
  expect(about(env)).toBe("Variable");
  expect(about({ ...env, last_four: "9f3a", agents: ["codex"] })).toBe("Variable · only for codex · ends in 9f3a");
  expect(about({ ...env, kind: "file", target: "~/.npmrc" })).toBe("File · ~/.npmrc");
  expect(about({ ...env, kind: "git", target: "github.com", username: "bot", in_sandbox: false })).toBe(
    "Git credential · bot at github.com · used only by the server",
  );
});

test("agents by commas and spaces", () => {
  expect(agentsOf(" codex, claude-code  codex,")).toEqual(["codex", "claude-code"]);
  expect(agentsOf("")).toEqual([]);
});
