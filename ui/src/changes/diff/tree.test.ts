import { describe, expect, it } from "vitest";
import { inTreeOrder, treeRows } from "./tree";
import type { ChangedFile } from "./types";

const file = (path: string): ChangedFile => ({
  path,
  status: "modified",
  mode: "100644",
  old_mode: "100644",
  mark: "",
  size: 1,
  binary: false,
  additions: 1,
  deletions: 2,
  folded: "",
  viewed: false,
});

const files = ["z.md", "a/b/c/one.ts", "a/b/c/two.ts", "a/x.ts", "file10", "file9"].map(file);

describe("treeRows", () => {
  it("puts folders first and writes lonely ones together", () => {
    const rows = treeRows(files, new Set(), (f) => f.path.endsWith("one.ts"));
    expect(rows.map((r) => `${"  ".repeat(r.depth)}${r.name}`)).toEqual([
      "a",
      "  b/c",
      "    one.ts",
      "    two.ts",
      "  x.ts",
      "file9",
      "file10",
      "z.md",
    ]);
    expect(rows[0]).toMatchObject({ files: 3, viewed: 1, additions: 3, deletions: 6, at: 1, size: 4 });
    expect(inTreeOrder(files).map((f) => f.path)).toEqual([
      "a/b/c/one.ts",
      "a/b/c/two.ts",
      "a/x.ts",
      "file9",
      "file10",
      "z.md",
    ]);
  });

  it("leaves out what is in closed folders", () => {
    const names = treeRows(files, new Set(["a/b/c/"]), () => false).map((r) => r.name);
    expect(names).toEqual(["a", "b/c", "x.ts", "file9", "file10", "z.md"]);
  });
});
