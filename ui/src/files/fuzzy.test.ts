import { describe, expect, it } from "vitest";
import { fits, match, PathIndex, wordsOf } from "./fuzzy";

const paths = [
  "README.md",
  "server/work/files.go",
  "server/work/files_test.go",
  "server/profiles/filter.go",
  "ui/src/files/pane.tsx",
  "ui/src/app/palette.tsx",
  "ui/src/kit/use-media.ts",
  "docs/profile.md",
  "İstanbul/ünï.txt",
];
const best = (typed: string) => new PathIndex(paths).find(typed, 3).items.map((i) => i.path);

describe("finding paths", () => {
  it.each([
    ["files.go", "server/work/files.go"],
    ["wfiles", "server/work/files.go"],
    ["readme", "README.md"],
    ["um", "ui/src/kit/use-media.ts"],
    ["pal tsx", "ui/src/app/palette.tsx"],
    ["work test", "server/work/files_test.go"],
    ["docs profile", "docs/profile.md"],
    ["istanbul", "İstanbul/ünï.txt"],
  ])("%s finds %s first", (typed, want) => {
    expect(best(typed)[0]).toBe(want);
  });

  it("finds nothing where a character is missing, and nothing while nothing is typed", () => {
    expect(best("zzz")).toEqual([]);
    expect(best("  ")).toEqual([]);
  });

  it("says which characters fit", () => {
    expect(match(wordsOf("pane"), "ui/src/files/pane.tsx")?.at).toEqual([13, 14, 15, 16]);
    expect(match(wordsOf("PT"), "app/palette.tsx")?.at).toEqual([4, 12]);
  });

  it("gives the same answer to who types on as to who typed at once", () => {
    const typedOn = new PathIndex(paths);
    for (const typed of ["f", "fi", "fil", "fil g", "fil go"]) {
      expect(typedOn.find(typed, 9)).toEqual(new PathIndex(paths).find(typed, 9));
    }
  });

  it("searches whole words where it is asked to", () => {
    expect(new PathIndex(paths).find("fls", 9, true).total).toBe(0);
    expect(new PathIndex(paths).find("FILES work", 9, true).items.map((i) => i.path)).toEqual([
      "server/work/files.go",
      "server/work/files_test.go",
    ]);
  });
});

it("fits paths to what is written of them", () => {
  const paths = ["TODO.md", "src/main.go", "docs/Main.md"];
  expect(paths.filter((p) => fits("main", p.toLowerCase()))).toEqual(["src/main.go", "docs/Main.md"]);
  expect(paths.filter((p) => fits("", p.toLowerCase()))).toEqual(paths);
});
