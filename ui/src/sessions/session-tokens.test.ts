import { describe, expect, it } from "vitest";
import { tokensDetail, tokensLine } from "./session-tokens";

const some = {
  input: 6100,
  output: 521,
  cache_read: 1100,
  cache_write: 0,
  cost_nano: 44_075_000 as number | null,
  requests: 3,
  unknown_requests: 0,
  included_requests: 0,
  source: "gateway" as const,
};

describe("what a session asked of models", () => {
  it("is tokens and money", () => {
    expect(tokensLine(some)).toBe("7.7K tokens, $0.04");
    expect(tokensDetail(some)).toContain("counted by the model gateway");
  });
  it("says what is unknown", () => {
    expect(tokensLine({ ...some, unknown_requests: 1 })).toBe("7.7K tokens, $0.04, 1 unknown");
    expect(tokensLine({ ...some, cost_nano: null, unknown_requests: 3 })).toBe("7.7K tokens, cost unknown");
  });
  it("costs nothing more on somebody's own login", () => {
    const own = { ...some, cost_nano: null, included_requests: 3, source: "transcript" as const };
    expect(tokensLine(own)).toBe("7.7K tokens, on your own login");
    expect(tokensDetail(own)).toContain("covered by a subscription");
  });
});
