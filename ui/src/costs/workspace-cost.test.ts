import { expect, test } from "vitest";
import { costOf } from "./workspace-cost";

test("what is not known of a cost is said, and never is nothing", () => {
  expect(costOf({ cost_nano: 0 })).toBe("");
  expect(costOf({ cost_nano: 1_200_000_000, tokens_cost_nano: 300_000_000, tokens_unknown: 0 })).toBe("$1.50");
  expect(costOf({ cost_nano: 0, tokens_cost_nano: null, tokens_unknown: 2 })).toBe("cost unknown");
  expect(costOf({ cost_nano: 1_200_000_000, tokens_cost_nano: null, tokens_unknown: 2 })).toBe("$1.20 + unknown");
});
