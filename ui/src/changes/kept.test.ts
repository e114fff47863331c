import { describe, expect, it } from "vitest";
import { parsePatch } from "./diff/patch";
import { Kept } from "./kept";

const patch = (path: string, lines: number) => {
  const body = Array.from({ length: lines }, (_, i) => `+line ${i}\n`).join("");
  const head = `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -0,0 +1,${lines} @@\n`;
  return parsePatch(new TextEncoder().encode(head + body))[0]!;
};

describe("kept diffs", () => {
  it("lets go of those used longest ago", () => {
    const kept = new Kept(10_000); // room for three of a hundred lines
    for (const name of ["a", "b"]) kept.put(name, patch(name, 80));
    expect(kept.get("a")?.path).toBe("a");
    for (const name of ["c", "d"]) kept.put(name, patch(name, 80));
    expect(["a", "b", "c", "d"].map((name) => kept.get(name)?.path)).toEqual(["a", undefined, "c", "d"]);
  });

  it("does not give everything up for one that is large", () => {
    const kept = new Kept(10_000);
    kept.put("a", patch("a", 80));
    kept.put("large", patch("large", 500));
    expect(kept.get("a")?.path).toBe("a");
    expect(kept.get("large")).toBeUndefined();
  });
});
