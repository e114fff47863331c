import { describe, expect, it } from "vitest";
import { parsePatch } from "./diff/patch";
import { DiffCache } from "./diff-cache";

const patch = (path: string, lines: number) => {
  const body = Array.from({ length: lines }, (_, i) => `+line ${i}\n`).join("");
  const head = `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -0,0 +1,${lines} @@\n`;
  return parsePatch(new TextEncoder().encode(head + body))[0]!;
};

describe("the diff cache", () => {
  it("lets go of those used longest ago", () => {
    const cache = new DiffCache(10_000); // room for three of a hundred lines
    for (const name of ["a", "b"]) cache.put(name, patch(name, 80));
    expect(cache.get("a")?.path).toBe("a");
    for (const name of ["c", "d"]) cache.put(name, patch(name, 80));
    expect(["a", "b", "c", "d"].map((name) => cache.get(name)?.path)).toEqual(["a", undefined, "c", "d"]);
  });

  it("does not give everything up for one that is large", () => {
    const cache = new DiffCache(10_000);
    cache.put("a", patch("a", 80));
    cache.put("large", patch("large", 500));
    expect(cache.get("a")?.path).toBe("a");
    expect(cache.get("large")).toBeUndefined();
  });
});
