import { expect, it } from "vitest";
import { amount, poolCostWords, wrongNumber } from "./instance-api";

it("reads numbers of a form", () => {
  expect([amount(0), amount(30)]).toEqual(["", "30"]);
  expect(["", " 30 ", "3.5", "-1", "x"].map((t) => wrongNumber(t) === undefined)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(poolCostWords(100_800_000, 3)).toBe("3 ready at the default size: $0.30 an hour, about $220.75 a month.");
});
