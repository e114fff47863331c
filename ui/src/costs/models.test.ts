import { expect, test } from "vitest";
import {
  costWords,
  draftOf,
  errorWords,
  inWords,
  limitOf,
  limitOfDraft,
  type ModelRequest,
  nanoOf,
  perMillion,
  wrongRule,
} from "./models";

test("dollars are exact both ways", () => {
  for (const [text, nano] of [
    ["0.1", 100_000_000],
    ["5", 5_000_000_000],
    [" $0,125 ", 125_000_000],
    ["0.000000001", 1],
    ["100000", 100_000_000_000_000],
  ] as const)
    expect(nanoOf(text)).toBe(nano);
  for (const text of ["", "-1", "1e3", "five", "0.0000000001", "1.2.3"]) expect(nanoOf(text)).toBeUndefined();
  expect(perMillion(125_000_000)).toBe("$0.125");
  expect(perMillion(5_000_000_000)).toBe("$5");
  expect(perMillion(null)).toBe("–");
});

test("an empty limit is none, and zero is no limit", () => {
  expect(limitOf("")).toBeNull();
  expect(limitOf(" 60 ")).toBe(60);
  for (const text of ["0", "-1", "1.5", "many"]) expect(limitOf(text)).toBeUndefined();
});

test("unknown is never nothing", () => {
  expect(costWords({ cost_nano: null, included: false })).toBe("unknown");
  expect(costWords({ cost_nano: null, included: true })).toBe("in the subscription");
  expect(costWords({ cost_nano: 0, included: false })).toBe("$0.00");
  const r = {
    input_tokens: null,
    cache_read_tokens: null,
    cache_write_tokens: null,
    cache_write_hour_tokens: null,
  } as ModelRequest;
  expect(inWords(r)).toBe("?");
  expect(inWords({ ...r, input_tokens: 100, cache_read_tokens: 900, cache_write_tokens: 5 })).toBe(
    "1,005 (900 cached)",
  );
  expect(errorWords("")).toBe("Answered");
  expect(errorWords("something_new")).toBe("something_new");
});

test("rules are checked before they are sent", () => {
  const a = draftOf({ model: "claude-*", allowed: true, requests_minute: 60, tokens_minute: null }, 1);
  expect(wrongRule(a, [a])).toBeUndefined();
  expect(limitOfDraft(a)).toEqual({ model: "claude-*", allowed: true, requests_minute: 60, tokens_minute: null });
  expect(wrongRule({ ...a, model: "a b" }, [a])).toContain("name");
  expect(wrongRule({ ...a, key: 2 }, [a, { ...a, key: 2 }])).toContain("two rules");
  expect(wrongRule({ ...a, tokens: "0" }, [a])).toContain("whole number");
});
