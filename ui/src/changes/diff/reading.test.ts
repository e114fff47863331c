import { describe, expect, it } from "vitest";
import { parsePatch } from "./patch";
import { Reading, type Source } from "./reading";
import type { ChangedFile, Comparison } from "./types";

const changed = (path: string, over: Partial<ChangedFile> = {}): ChangedFile => ({
  path,
  status: "modified",
  mode: "100644",
  old_mode: "100644",
  mark: "m1",
  size: 10,
  binary: false,
  additions: 1,
  deletions: 1,
  folded: "",
  viewed: false,
  ...over,
});

const side = (rev: string) => ({ rev, commit: rev, tree: rev, snapshot_id: null, at: 0, label: rev });

const comparison = (files: ChangedFile[]): Comparison => ({
  from: side("base"),
  to: side("now"),
  files,
  additions: 0,
  deletions: 0,
  truncated: false,
  newer: 0,
});

const patchOf = (path: string, text = "new") =>
  parsePatch(
    new TextEncoder().encode(
      `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -5 +5 @@\n-old\n+${text}\n`,
    ),
  );

/** A reading whose asks are answered by hand. */
function setUp() {
  const asks: {
    paths: readonly string[] | undefined;
    whole: boolean;
    answer: (truncated?: boolean, leave?: string[]) => void;
    fail: () => void;
  }[] = [];
  const reading = new Reading(
    (run) => run(),
    () => {},
  );
  reading.start();
  const source = (files: ChangedFile[], ignoreSpace = false): Source => ({
    comparison: comparison(files),
    ignoreSpace,
    load: (paths, whole) =>
      new Promise((resolve, reject) => {
        asks.push({
          paths,
          whole,
          answer: (truncated = false, leave = []) =>
            resolve({
              files: (paths ?? files.map((f) => f.path)).filter((p) => !leave.includes(p)).flatMap((p) => patchOf(p)),
              truncated,
            }),
          fail: () => reject(new Error("no")),
        });
      }),
  });
  const states = () => reading.view.get().files.map((f) => f.loaded.state);
  const settled = () => new Promise((r) => setTimeout(r));
  return { reading, source, asks, states, settled };
}

describe("Reading", () => {
  it("asks for all in one go when it is little", async () => {
    const { reading, source, asks, states, settled } = setUp();
    reading.show(source([changed("a"), changed("b")]));
    expect(asks.map((a) => a.paths)).toEqual([undefined]);
    asks[0]!.answer();
    await settled();
    expect(states()).toEqual(["ready", "ready"]);
    expect(asks.length).toBe(1);
  });

  it("asks again by name for what was left out, and takes a file nobody knows for one without lines", async () => {
    const { reading, source, asks, states, settled } = setUp();
    reading.show(source([changed("a"), changed("b")]));
    asks[0]!.answer(true, ["b"]);
    await settled();
    expect(asks.map((a) => a.paths)).toEqual([undefined, ["b"]]);
    asks[1]!.answer(false, ["b"]);
    await settled();
    expect(states()).toEqual(["ready", "ready"]);
  });

  it("loads nothing that is folded until it is opened", async () => {
    const { reading, source, asks, states, settled } = setUp();
    reading.show(source([changed("a", { folded: "lock" })]));
    reading.need(0, 0);
    expect(asks).toEqual([]);
    reading.toggleFold(0);
    expect(asks.map((a) => a.paths)).toEqual([["a"]]);
    asks[0]!.answer();
    await settled();
    expect(states()).toEqual(["ready"]);
  });

  it("keeps what did not change, and drops answers to what is no longer read", async () => {
    const { reading, source, asks, states, settled } = setUp();
    reading.show(source([changed("a"), changed("b")]));
    asks[0]!.answer();
    await settled();
    reading.show(source([changed("a"), changed("b", { mark: "m2" })]));
    expect(asks.at(-1)!.paths).toEqual(["b"]);
    expect(states()).toEqual(["ready", "loading"]);
    reading.show(source([changed("a"), changed("b", { mark: "m3" })]));
    asks[1]!.answer();
    await settled();
    expect(states()[1]).not.toBe("ready");
    asks.at(-1)!.answer();
    await settled();
    expect(states()).toEqual(["ready", "ready"]);
    // Without white space the lines are others.
    reading.show(source([changed("a"), changed("b", { mark: "m3" })], true));
    expect(states()).toEqual(["loading", "loading"]);
  });

  it("says what failed and tries again", async () => {
    const { reading, source, asks, states, settled } = setUp();
    reading.show(source([changed("a")]));
    asks[0]!.fail();
    await settled();
    expect(states()).toEqual(["error"]);
    reading.retry(0);
    asks[1]!.answer();
    await settled();
    expect(states()).toEqual(["ready"]);
    // A fold that could not be opened closes again; the lines stay.
    reading.open(0, 1, "all");
    expect(asks[2]!.whole).toBe(true);
    asks[2]!.fail();
    await settled();
    expect(states()).toEqual(["ready"]);
    expect(reading.view.get().files[0]!.opened.size).toBe(0);
  });

  it("marks a file as viewed in the state it has only", async () => {
    const { reading, source } = setUp();
    reading.show(source([changed("a")]));
    reading.setViewed("a", true);
    expect(reading.view.get().files[0]!.viewed).toBe(true);
    reading.show(source([changed("a")]));
    expect(reading.view.get().files[0]!.viewed).toBe(true);
    reading.show(source([changed("a", { mark: "m2" })]));
    expect(reading.view.get().files[0]!.viewed).toBe(false);
  });

  it("asks for the whole file when something stands below a line that is not there", async () => {
    const { reading, source, asks, settled } = setUp();
    reading.setAnchors(new Map([["a", [{ key: "c", side: "new", line: 200 }]]]));
    reading.show(source([changed("a")]));
    asks[0]!.answer();
    await settled();
    expect(asks.map((a) => [a.paths, a.whole])).toEqual([
      [["a"], false],
      [["a"], true],
    ]);
  });

  it("loads far files only when they come near", () => {
    const { reading, source, asks } = setUp();
    reading.show(source(Array.from({ length: 100 }, (_, i) => changed(`f${i}`, { additions: 500, deletions: 0 }))));
    const asked = () => asks.flatMap((a) => a.paths ?? []).length;
    expect(asked()).toBeLessThan(20);
    reading.need(90, 92);
    expect(asks.at(-1)!.paths).toEqual(["f90", "f91", "f92"]);
    expect(reading.view.get().files[91]!.loaded.state).toBe("loading");
  });
});

describe("what a reading begins with", () => {
  it("is asked for once, and nothing after it", async () => {
    const files = Array.from({ length: 40 }, (_, i) => changed(`f${String(i).padStart(2, "0")}`, { additions: 500 }));
    const asks: (readonly string[] | undefined)[] = [];
    const source: Source = {
      comparison: comparison(files),
      ignoreSpace: false,
      load: async (paths) => {
        asks.push(paths);
        return { files: [], truncated: false };
      },
    };
    await Reading.first(source);
    await Promise.resolve();
    expect(asks.length).toBe(1);
    expect(asks[0]?.[0]).toBe("f00");
    expect(asks[0]?.length).toBeLessThan(10);
  });
});
