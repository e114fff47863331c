import { describe, expect, it } from "vitest";
import type { Change, ChangeSet } from "@/api/client";
import { newer, Review } from "./review";

const file = (path: string, hash: string, over: Partial<Change> = {}): Change => ({
  path,
  status: "modified",
  mode: "100644",
  old_mode: "100644",
  size: 3,
  binary: false,
  additions: 1,
  deletions: 1,
  hash,
  staged: false,
  committed: false,
  ...over,
});
const set = (version: number, ...items: Change[]): ChangeSet => ({
  version,
  base_commit: "base",
  head_commit: "head",
  branch: "b",
  items,
  synced_at: 1,
  error: "",
});
const DIFF = "@@ -1 +1 @@\n-a\n+b\n";

function setup(fail = new Set<string>()) {
  const asked: string[] = [];
  const review = new Review(
    async (path, _stamp, whole) => {
      asked.push(whole ? `${path} whole` : path);
      if (fail.has(path)) throw new Error("no");
      return new TextEncoder().encode(DIFF);
    },
    new Map(),
    (run) => run(),
    () => {},
  );
  return { review, asked, settle: () => new Promise((r) => setTimeout(r, 0)) };
}

const kinds = (r: Review, i: number) =>
  r.view
    .get()
    .rows.filter((row) => row.file === i)
    .map((row) => (row.kind === "note" ? row.note : row.kind));

describe("review", () => {
  it("loads what is needed once, and keeps it while the file stays the same", async () => {
    const { review, asked, settle } = setup();
    review.show(set(1, file("a", "1"), file("b", "1")));
    expect(kinds(review, 0)).toEqual(["file", "loading", "end"]);
    review.need([0]);
    review.need([0]);
    await settle();
    expect(asked).toEqual(["a"]);
    expect(kinds(review, 0)).toEqual(["file", "line", "line", "fold", "end"]);
    review.show(set(2, file("a", "1"), file("b", "2")));
    expect(kinds(review, 0)).toEqual(["file", "line", "line", "fold", "end"]);
    review.show(set(3, file("a", "9"), file("b", "2")));
    expect(kinds(review, 0)).toEqual(["file", "loading", "end"]);
  });

  it("keeps a file's diff when another comes before it", async () => {
    const { review, settle } = setup();
    review.show(set(1, file("b", "1")));
    review.need([0]);
    await settle();
    review.show(set(2, file("a", "1"), file("b", "1")));
    expect(kinds(review, 1)).toContain("line");
    expect(review.view.get().heads).toEqual([0, 3]);
  });

  it("says what failed and tries again when asked", async () => {
    const fail = new Set(["a"]);
    const { review, settle } = setup(fail);
    review.show(set(1, file("a", "1")));
    review.need([0]);
    await settle();
    expect(kinds(review, 0)).toEqual(["file", "error", "end"]);
    fail.clear();
    review.retry(0);
    await settle();
    expect(kinds(review, 0)).toContain("line");
  });

  it("asks for the whole file when a fold is opened", async () => {
    const { review, asked, settle } = setup();
    review.show(set(1, file("a", "1")));
    review.need([0]);
    await settle();
    review.open(0, 2, "top");
    await settle();
    expect(asked).toEqual(["a", "a whole"]);
  });

  it("does not load what is folded, and folds what was viewed until it changes", async () => {
    const { review, asked, settle } = setup();
    review.show(set(1, file("a", "1"), file("yarn.lock", "1")));
    review.need([0, 1]);
    await settle();
    expect(asked).toEqual(["a"]);
    review.toggleViewed(0);
    expect(kinds(review, 0)).toEqual(["file"]);
    review.show(set(2, file("a", "2"), file("yarn.lock", "1")));
    expect(review.view.get().files[0]!.viewed).toBe(false);
    expect(kinds(review, 0)).toEqual(["file", "loading", "end"]);
  });

  it("stays quick with 50,000 files", () => {
    const { review } = setup();
    const many = Array.from({ length: 50_000 }, (_, i) => file(`dir/f${i}`, "1"));
    const started = performance.now();
    review.show(set(1, ...many));
    review.show(set(2, ...many));
    expect(review.view.get().heads.length).toBe(50_000);
    expect(performance.now() - started).toBeLessThan(2000);
  });
});

describe("newer", () => {
  it("counts what changed, came and went", () => {
    const reading = set(1, file("a", "1"), file("b", "1"), file("c", "1"));
    expect([...newer(reading, set(5, file("a", "1"), file("b", "2"), file("d", "1")))].sort()).toEqual(["b", "c", "d"]);
    expect(newer(reading, set(7, ...reading.items)).size).toBe(0);
  });
});
