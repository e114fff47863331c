import { expect, test } from "vitest";
import { lineDiff } from "./skill-diff";

test("a diff of versions has the changed lines and some around them", () => {
  const text = Array.from({ length: 12 }, (_, i) => `line ${i}`);
  const changed = text.map((l, i) => (i === 6 ? "another" : l));
  expect(lineDiff(text.join("\n"), changed.join("\n")).split("\n")).toEqual([
    "@@ 3 lines are the same",
    " line 3",
    " line 4",
    " line 5",
    "-line 6",
    "+another",
    " line 7",
    " line 8",
    " line 9",
    "@@ 2 lines are the same",
  ]);
  expect(lineDiff("a\nb", "a\nb")).toBe("");
  expect(lineDiff("", "a")).toBe("-\n+a");
});
