import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { pullState } from "./pull-mark";

test("a pull request's mark says first what a person should know", () => {
  const of = (
    state: Schemas["PullRequestSummary"]["state"],
    checks_state: Schemas["PullRequestSummary"]["checks_state"],
  ) => pullState({ number: 1, url: "https://forge.example/1", forge: "github", state, checks_state }).word;
  expect(of("draft", "")).toBe("draft");
  expect(of("draft", "failed")).toBe("checks failed");
  expect(of("open", "")).toBe("open");
  expect(of("open", "passed")).toBe("open, checks passed");
  expect(of("open", "pending")).toBe("checks running");
  expect(of("merged", "failed")).toBe("merged");
  expect(of("closed", "")).toBe("closed");
});
