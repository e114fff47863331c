import { expect, it } from "vitest";
import { budgetSaid, percent, targetValue, took } from "./server-metrics";

it("tells parts and times without pretending", () => {
  expect([0, 0.0004, 0.05, 0.5, 0.994, 0.9999, 1].map(percent)).toEqual([
    "0 %",
    "<0.1 %",
    "5.0 %",
    "50 %",
    "99.4 %",
    ">99.9 %",
    "100 %",
  ]);
  expect([null, 0, 240, 2440, 61_000].map(took)).toEqual(["–", "0 ms", "240 ms", "2.4 s", "61 s"]);
  expect(percent(null)).toBe("–");
  expect([
    targetValue({ value: 99.4, unit: "percent" }),
    targetValue({ value: 2440, unit: "ms" }),
    targetValue({ value: null, unit: "ms" }),
  ]).toEqual(["99.4 %", "2.4 s", ""]);
});

it("says when a budget needs a look", () => {
  const of = (spent: number, limit: number) =>
    budgetSaid({ limit_nano: limit * 1e9 || null, spent_nano: spent * 1e9, left_nano: (limit - spent) * 1e9 });
  expect(of(10, 0)).toMatchObject({ words: "$10.00 this month; no budget is set", mark: "done" });
  expect(of(10, 500)).toMatchObject({ words: "$10.00 of $500.00 this month, $490.00 left", mark: "done" });
  expect(of(460, 500).mark).toBe("needs");
  expect(of(510, 500)).toMatchObject({ mark: "failed", words: "$510.00 of $500.00 this month, $0.00 left" });
});
