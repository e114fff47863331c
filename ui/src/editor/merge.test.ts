import { describe, expect, it } from "vitest";
import { diffLines, isConflict, merge3, mergedText } from "./merge";

const text = (...lines: (string | number)[]) => lines.join("\n");

describe("merge3", () => {
  const base = text(1, 2, 3, 4, 5, 6, 7, 8);
  it("puts together what does not touch", () => {
    const chunks = merge3(base, text(1, "two", 3, 4, 5, 6, 7, 8), text(0, 1, 2, 3, 4, 5, "six", 7));
    expect(chunks.some(isConflict)).toBe(false);
    expect(mergedText(chunks, [])).toBe(text(0, 1, "two", 3, 4, 5, "six", 7));
  });
  it("asks where both changed the same lines", () => {
    const chunks = merge3(base, text(1, 2, "mine", 4, 5, 6, 7, 8), text(1, 2, "theirs", 4, 5, 6, 7, "eight"));
    expect(chunks.filter(isConflict)).toEqual([{ mine: ["mine"], theirs: ["theirs"] }]);
    expect(mergedText(chunks, ["mine"])).toBe(text(1, 2, "mine", 4, 5, 6, 7, "eight"));
    expect(mergedText(chunks, ["theirs"])).toBe(text(1, 2, "theirs", 4, 5, 6, 7, "eight"));
    expect(mergedText(chunks, ["both"])).toBe(text(1, 2, "mine", "theirs", 4, 5, 6, 7, "eight"));
  });
  it("stays quick where many lines are alike", () => {
    const long = Array.from({ length: 20_000 }, (_, i) => (i % 2 === 0 ? "" : i % 4 === 1 ? "}" : `line ${i}`));
    const [mine, theirs] = [[...long], [...long]];
    mine.splice(10, 1, "mine");
    theirs.splice(19_000, 1, "theirs", "}");
    const both = [...mine];
    both.splice(19_000, 1, "theirs", "}");
    const chunks = merge3(text(...long), text(...mine), text(...theirs));
    expect(chunks.some(isConflict)).toBe(false);
    expect(mergedText(chunks, [])).toBe(text(...both));
  });
  it("takes what both did once", () => {
    const both = text(1, "two", 3, 4, 5, 6, 7, 8);
    expect(mergedText(merge3(base, both, both), [])).toBe(both);
  });
  it("keeps one side whole where the other did nothing, whatever the texts", () => {
    let seed = 7;
    const random = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % n;
    };
    const some = () => Array.from({ length: random(12) }, () => "abc"[random(3)]).join("\n");
    for (let i = 0; i < 300; i++) {
      const [a, b] = [some(), some()];
      expect(mergedText(merge3(a, b, a), [])).toBe(b);
      expect(mergedText(merge3(a, a, b), [])).toBe(b);
      const c = some();
      const chunks = merge3(a, b, c);
      const n = chunks.filter(isConflict).length;
      if (n > 0) continue;
      // Each line of the result is one of the three's.
      for (const l of mergedText(chunks, []).split("\n")) expect(`${a}\n${b}\n${c}`.split("\n")).toContain(l);
      for (const [a0, a1, b0, b1] of diffLines(a.split("\n"), b.split("\n"))) expect(a1 + b1).toBeGreaterThan(a0 + b0);
    }
  });
});
