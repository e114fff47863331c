import { describe, expect, it } from "vitest";
import type { Change } from "@/api/client";
import { findIn } from "./find";
import { languageOf } from "./language";
import { rowHeight } from "./measure";
import { type DiffLine, parseDiff, withoutWhitespace } from "./parse";
import { type FileView, fileRows, fold, foldReason } from "./rows";
import { segments, tokensFromHtml } from "./segments";
import { changedWords, wordDiff } from "./words";

const bytes = (text: string) => new TextEncoder().encode(text);

const SAMPLE = `diff --git a/a.go b/a.go
index 111..222 100644
--- a/a.go
+++ b/a.go
@@ -10,4 +10,5 @@ func main() {
 one
-two
+TWO
+three
 four
 five
@@ -40 +41 @@
--- looks like a header
+++ so does this
\\ No newline at end of file
`;

describe("parseDiff", () => {
  it("numbers lines on both sides", () => {
    const d = parseDiff(bytes(SAMPLE));
    expect(d.hunks.map((h) => [h.oldStart, h.oldLines, h.newStart, h.newLines, h.section])).toEqual([
      [10, 4, 10, 5, "func main() {"],
      [40, 1, 41, 1, ""],
    ]);
    expect(d.hunks[0]!.lines.map((l) => [l.kind, l.old, l.new, l.text])).toEqual([
      ["context", 10, 10, "one"],
      ["del", 11, undefined, "two"],
      ["add", undefined, 11, "TWO"],
      ["add", undefined, 12, "three"],
      ["context", 12, 13, "four"],
      ["context", 13, 14, "five"],
    ]);
  });

  it("takes lines that look like headers for what they are", () => {
    const lines = parseDiff(bytes(SAMPLE)).hunks[1]!.lines;
    expect(lines.map((l) => [l.kind, l.text])).toEqual([
      ["del", "-- looks like a header"],
      ["add", "++ so does this"],
    ]);
    expect(lines[1]!.noNewline).toBe(true);
    expect(lines[0]!.pair).toBe(lines[1]);
  });

  it("knows binary files, modes and new files", () => {
    expect(parseDiff(bytes("diff --git a/x b/x\nBinary files a/x and b/x differ\n")).binary).toBe(true);
    expect(parseDiff(bytes("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"))).toMatchObject({
      oldMode: "100644",
      newMode: "100755",
      hunks: [],
    });
    expect(parseDiff(bytes("--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n")).hunks[0]!.lines.length).toBe(2);
    expect(parseDiff(new Uint8Array()).hunks).toEqual([]);
  });

  it("shows bytes that are not UTF-8 as Latin-1", () => {
    const d = parseDiff(Uint8Array.from([...bytes("@@ -0,0 +1 @@\n+gr"), 0xfc, ...bytes("n\n")]));
    expect(d.encoding).toBe("latin-1");
    expect(d.hunks[0]!.lines[0]!.text).toBe("grün");
  });

  it("reads 40,000 lines in well under a second", () => {
    const text = `@@ -1,40000 +1,40000 @@\n${"-old line of text\n+new line of text\n".repeat(40_000)}`;
    const started = performance.now();
    expect(parseDiff(bytes(text)).hunks[0]!.lines.length).toBe(80_000);
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

describe("white space", () => {
  it("is taken out of the changes", () => {
    const d = parseDiff(bytes("@@ -1,3 +1,4 @@\n-if a {\n-b\n-c\n+if  a {\n+\tb\n+\n+d\n"));
    const lines = withoutWhitespace(d.hunks[0]!.lines);
    expect(lines.map((l) => [l.kind, l.text, l.old, l.new])).toEqual([
      ["context", "if  a {", 1, 1],
      ["context", "\tb", 2, 2],
      ["del", "c", 3, undefined],
      ["add", "", undefined, 3],
      ["add", "d", undefined, 4],
    ]);
  });
});

describe("words", () => {
  const cut = (text: string, list: readonly (readonly [number, number])[]) => list.map(([a, b]) => text.slice(a, b));

  it("marks what changed", () => {
    const a = "  time.Sleep(2 * time.Second)";
    const b = "  time.Sleep(backoff * time.Second)";
    const [x, y] = wordDiff(a, b);
    expect(cut(a, x)).toEqual(["2"]);
    expect(cut(b, y)).toEqual(["backoff"]);
  });

  it("marks nothing where nearly everything changed", () => {
    expect(wordDiff("return nil", "x := compute(a, b, c)")).toEqual([[], []]);
    expect(wordDiff("same", "same")).toEqual([[], []]);
  });

  it("is found for a pair once", () => {
    const add: DiffLine = { kind: "add", text: "let a = 2;" };
    const del: DiffLine = { kind: "del", text: "let a = 1;", pair: add };
    add.pair = del;
    expect(changedWords(add)).toEqual([[8, 9]]);
    expect(changedWords(del)).toBe(changedWords(del));
  });
});

const change = (over: Partial<Change>): Change => ({
  path: "a.go",
  status: "modified",
  mode: "100644",
  old_mode: "100644",
  size: 10,
  binary: false,
  additions: 1,
  deletions: 1,
  hash: "x",
  staged: false,
  committed: false,
  ...over,
});

const view = (over: Partial<FileView> = {}): FileView => ({
  change: change({}),
  loaded: { state: "ready", diff: parseDiff(bytes(SAMPLE)), whole: false },
  folded: undefined,
  opened: new Map(),
  viewed: false,
  ...over,
});

describe("rows", () => {
  const options = { split: false, whitespace: true };

  it("puts folds between hunks and at both ends", () => {
    const rows = fileRows(view(), 0, options);
    expect(rows.filter((r) => r.kind === "fold").map((r) => r.kind === "fold" && [r.at, r.count, r.edge])).toEqual([
      [1, 9, "top"],
      [14, 26, "middle"],
      [41, -1, "bottom"],
    ]);
    expect(new Set(rows.map((r) => r.key)).size).toBe(rows.length);
  });

  it("pairs lines side by side", () => {
    const pairs = fileRows(view(), 0, { ...options, split: true }).filter((r) => r.kind === "pair");
    expect(pairs.map((r) => r.kind === "pair" && [r.left?.text, r.right?.text])).toEqual([
      ["one", "one"],
      ["two", "TWO"],
      [undefined, "three"],
      ["four", "four"],
      ["five", "five"],
      ["-- looks like a header", "++ so does this"],
    ]);
  });

  it("counts stretches of changes", () => {
    const rows = fileRows(view(), 0, options).filter((r) => r.kind === "line");
    expect(rows.map((r) => r.kind === "line" && r.change)).toEqual([0, 1, 1, 1, 0, 0, 2, 2]);
  });

  it("folds what is large, noisy, deleted or binary until asked", () => {
    expect(foldReason(change({ additions: 801, deletions: 0 }))).toBe("large");
    expect(foldReason(change({ path: "web/package-lock.json" }))).toBe("noisy");
    expect(foldReason(change({ status: "deleted" }))).toBe("deleted");
    expect(foldReason(change({}))).toBeUndefined();
    const large = view({ change: change({ additions: 900 }) });
    expect(fileRows(large, 0, options).map((r) => r.kind)).toEqual(["file", "note"]);
    expect(fileRows({ ...large, folded: false }, 0, options).length).toBeGreaterThan(5);
  });

  it("opens folds of a whole file from either side", () => {
    const lines: DiffLine[] = Array.from({ length: 100 }, (_, i) =>
      i === 50
        ? { kind: "add", text: "new", new: 51 }
        : { kind: "context", text: `${i}`, old: i < 50 ? i + 1 : i, new: i + 1 },
    );
    const shape = (opened: Map<number, { top: number; bottom: number }>) =>
      fold(lines, opened).map((p) => ("at" in p ? `fold ${p.at}+${p.count}` : p.lines.length));
    expect(shape(new Map())).toEqual(["fold 1+47", 7, "fold 54+46"]);
    expect(shape(new Map([[1, { top: 0, bottom: 20 }]]))).toEqual(["fold 1+27", 27, "fold 54+46"]);
    expect(
      shape(
        new Map([
          [1, { top: 20, bottom: 27 }],
          [54, { top: 46, bottom: 0 }],
        ]),
      ),
    ).toEqual([100]);
  });

  it("says why there is nothing to show", () => {
    const empty = (text: string, over: Partial<Change> = {}) =>
      fileRows(
        view({ change: change(over), loaded: { state: "ready", diff: parseDiff(bytes(text)), whole: false } }),
        0,
        options,
      )
        .filter((r) => r.kind === "note")
        .map((r) => r.kind === "note" && r.note);
    expect(empty("old mode 100644\nnew mode 100755\n")).toEqual(["mode"]);
    expect(empty("", { size: 0, status: "added" })).toEqual(["empty"]);
    expect(empty("rename from a\nrename to b\n")).toEqual(["same"]);
  });

  it("knows how high a row will be", () => {
    const line = (text: string) =>
      rowHeight({ kind: "line", file: 0, key: "", line: { kind: "context", text }, change: 0 }, 860, false);
    expect(line("short")).toBe(20);
    expect(line("x".repeat(150))).toBe(40);
  });
});

describe("segments", () => {
  it("lays syntax, changed words and hits over each other", () => {
    const out = segments(
      "let abc = 1",
      [
        [3, "hl-keyword"],
        [8, ""],
      ],
      [[4, 7]],
      [[5, 6]],
    );
    expect(out.map((s) => [s.text, s.cls, s.marked, s.hit])).toEqual([
      ["let", "hl-keyword", false, -1],
      [" ", "", false, -1],
      ["a", "", true, -1],
      ["b", "", true, 0],
      ["c", "", true, -1],
      [" = 1", "", false, -1],
    ]);
  });

  it("reads highlighted HTML as text, across lines and nested", () => {
    expect(tokensFromHtml('<span class="hljs-comment">/* a\n&lt;b&gt; */</span> x')).toEqual([
      [[4, "hl-comment"]],
      [
        [6, "hl-comment"],
        [2, ""],
      ],
    ]);
    expect(tokensFromHtml('<span class="hljs-string">`a<span class="hljs-subst">${b}</span>`</span>')).toEqual([
      [[7, "hl-string"]],
    ]);
  });
});

describe("find and languages", () => {
  it("minds case only when asked with a capital", () => {
    expect(findIn("Foo foo", "foo")).toEqual([
      [0, 3],
      [4, 7],
    ]);
    expect(findIn("Foo foo", "Foo")).toEqual([[0, 3]]);
    expect(findIn("x", "")).toEqual([]);
  });
  it("knows files by name", () => {
    expect(languageOf("a/b.tsx")).toBe("typescript");
    expect(languageOf("x/Dockerfile")).toBe("dockerfile");
    expect(languageOf("LICENSE")).toBeUndefined();
  });
});
