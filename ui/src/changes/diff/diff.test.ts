import { describe, expect, it } from "vitest";
import { languageOf } from "@/highlight/language";
import { segments, tokensFromHtml } from "@/highlight/segments";
import { findIn } from "./find";
import { FileLayout } from "./layout";
import { type FilePatch, lineText, NO_NEWLINE } from "./lines";
import { parsePatch } from "./patch";
import { unquoted, wire } from "./patchname";
import { type Anchor, type FileView, fileRows, isChangeStart, NONE, type RowOptions, SINGLE, specialAt } from "./rows";
import type { ChangedFile } from "./types";
import { changedWords, wordDiff } from "./word-marks";

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

const lines = (p: FilePatch) =>
  [...p.kind].map((k, i) => [[" ", "+", "-"][k & 3], p.old[i], p.new[i], lineText(p, i)] as const);

describe("parsePatch", () => {
  it("numbers lines on both sides", () => {
    const [d] = parsePatch(bytes(SAMPLE));
    expect(d!.path).toBe("a.go");
    expect(d!.hunks.map((h) => [h.first, h.count, h.oldStart, h.oldLines, h.newStart, h.newLines, h.section])).toEqual([
      [0, 6, 10, 4, 10, 5, "func main() {"],
      [6, 2, 40, 1, 41, 1, ""],
    ]);
    expect(lines(d!)).toEqual([
      [" ", 10, 10, "one"],
      ["-", 11, 0, "two"],
      ["+", 0, 11, "TWO"],
      ["+", 0, 12, "three"],
      [" ", 12, 13, "four"],
      [" ", 13, 14, "five"],
      ["-", 40, 0, "-- looks like a header"],
      ["+", 0, 41, "++ so does this"],
    ]);
    expect(d!.kind[7]! & NO_NEWLINE).toBe(NO_NEWLINE);
    expect([...d!.pair]).toEqual([-1, 2, 1, -1, -1, -1, 7, 6]);
  });

  it("tells files apart, whatever their lines say", () => {
    const forged = `diff --git a/x b/x
--- a/x
+++ b/x
@@ -1,2 +1,3 @@
 diff --git a/evil b/evil
-@@ -1 +1 @@
+diff --git a/evil b/evil
++++ b/evil
diff --git a/y b/y
new file mode 100755
--- /dev/null
+++ b/y
@@ -0,0 +1 @@
+y
`;
    const files = parsePatch(bytes(forged));
    expect(files.map((f) => [f.path, f.kind.length, f.newMode])).toEqual([
      ["x", 4, ""],
      ["y", 1, "100755"],
    ]);
  });

  it("knows names however git writes them", () => {
    const names = (text: string) => parsePatch(bytes(text)).map((f) => f.path);
    expect(names("diff --git a/a b/c b/a b/c\nold mode 100644\nnew mode 100755\n")).toEqual(["a b/c"]);
    expect(names("diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n")).toEqual(["new"]);
    expect(names("diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n")).toEqual(["gone"]);
    expect(names("diff --git a/with space b/with space\n--- a/with space\t\n+++ b/with space\t\n")).toEqual([
      "with space",
    ]);
    expect(names('diff --git "a/t\\tb\\303\\274" "b/t\\tb\\303\\274"\nBinary files differ\n')).toEqual(["t\tbü"]);
    expect(names('diff --git "a/\\377x" "b/\\377x"\n--- "a/\\377x"\n+++ "b/\\377x"\n')).toEqual(["\uf7ffx"]);
    expect(parsePatch(new Uint8Array())).toEqual([]);
  });

  it("has the wire form of any bytes", () => {
    expect(wire(bytes("plain/ü"))).toBe("plain/ü");
    expect(wire(Uint8Array.from([0x61, 0xff, 0xc3, 0xbc, 0xc3]))).toBe("a\uf7ffü\uf7c3");
    // A name with one of the letters that stand for bytes is written by its own bytes.
    expect(wire(bytes("\uf780"))).toBe("\uf7ef\uf79e\uf780");
    expect(unquoted(bytes('"a\\"\\\\\\n"'))).toEqual(bytes('a"\\\n'));
  });

  it("knows binary files and modes", () => {
    const [b] = parsePatch(bytes("diff --git a/x b/x\nBinary files a/x and b/x differ\n"));
    expect(b!.binary).toBe(true);
    const [m] = parsePatch(bytes("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"));
    expect(m).toMatchObject({ oldMode: "100644", newMode: "100755", hunks: [] });
  });

  it("shows bytes that are not UTF-8 as Latin-1", () => {
    const head = bytes("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+gr");
    const [d] = parsePatch(Uint8Array.from([...head, 0xfc, ...bytes("n\n")]));
    expect(d!.latin).toBe(true);
    expect(lineText(d!, 0)).toBe("grün");
  });

  it("reads 80,000 lines into tables", () => {
    const text = `diff --git a/x b/x\n@@ -1,40000 +1,40000 @@\n${"-old line of text\n+new line of text\n".repeat(40_000)}`;
    const [d] = parsePatch(bytes(text));
    expect(d!.kind.length).toBe(80_000);
    expect(d!.new[79_999]).toBe(40_000);
  });

  it("knows how wide lines are", () => {
    const [d] = parsePatch(bytes("diff --git a/x b/x\n@@ -0,0 +1,3 @@\n+abc\n+a\tb\n+日本\n"));
    expect([...d!.columns]).toEqual([3, 5, 4]);
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

  it("marks a long addition, and takes blanks between two changes along", () => {
    const more = " and so on".repeat(12);
    const [x, y] = wordDiff(
      `It says this. ${"The rest stays. ".repeat(20)}`,
      `It says this${more}. ${"The rest stays. ".repeat(20)}`,
    );
    expect(x).toEqual([]);
    expect(y).toEqual([[12, 12 + more.length]]);
    expect(wordDiff("the old way is kept here as it was", "the new path is kept here as it was")).toEqual([
      [[4, 11]],
      [[4, 12]],
    ]);
  });

  // Without a bound this takes so long that the test's own time runs out.
  it("gives up on long lines that have nothing in common", () => {
    const line = (c: string) => Array.from({ length: 1000 }, (_, i) => c + (i % 7)).join(" ");
    for (let i = 0; i < 50; i++) expect(wordDiff(line("a"), line("b"))).toEqual([[], []]);
  });

  it("is found for both of a pair", () => {
    const [p] = parsePatch(bytes("diff --git a/x b/x\n@@ -1 +1 @@\n-let a = 1;\n+let a = 2;\n"));
    expect(changedWords(p!, 0)).toEqual([[8, 9]]);
    expect(changedWords(p!, 1)).toEqual([[8, 9]]);
  });
});

const changed = (over: Partial<ChangedFile>): ChangedFile => ({
  path: "a.go",
  status: "modified",
  mode: "100644",
  old_mode: "100644",
  mark: "x",
  size: 10,
  binary: false,
  additions: 1,
  deletions: 1,
  folded: "",
  viewed: false,
  ...over,
});

const loadedWith = (text: string, whole = false, hunksOf = text): FileView["loaded"] => {
  const [patch] = parsePatch(bytes(text));
  return { state: "ready", patch: patch!, hunks: parsePatch(bytes(hunksOf))[0]!.hunks, whole };
};

const view = (over: Partial<FileView> = {}): FileView => ({
  id: 0,
  file: changed({}),
  loaded: loadedWith(SAMPLE),
  folded: undefined,
  opened: new Map(),
  viewed: false,
  ...over,
});

const options: RowOptions = { split: false, hunkHeads: false };

/** Rows in short: kinds of special rows, texts of lines. */
function shape(f: FileView, o: Partial<RowOptions> = {}, anchors: Anchor[] = []): string[] {
  const r = fileRows(f, { ...options, ...o }, anchors);
  const p = f.loaded.state === "ready" ? f.loaded.patch : undefined;
  const text = (i: number) => (i === NONE ? "·" : lineText(p!, i));
  return Array.from({ length: r.n }, (_, i) => {
    const s = specialAt(r, i);
    if (s?.kind === "gap") return `gap ${s.at}+${s.count}${s.hunk ? ` @${s.hunk.newStart}` : ""}`;
    if (s?.kind === "note") return `note ${s.note}`;
    if (s?.kind === "slot") return `slot ${s.slot}`;
    if (s) return s.kind;
    return r.b[i] === SINGLE ? text(r.a[i]!) : `${text(r.a[i]!)}|${text(r.b[i]!)}`;
  });
}

/** A file of 100 lines with the 51st added. */
const hundred = `diff --git a/a.go b/a.go\n@@ -1,99 +1,100 @@\n${Array.from({ length: 100 }, (_, i) => (i === 50 ? "+new" : ` ${i}`)).join("\n")}\n`;
const hundred3 = "diff --git a/a.go b/a.go\n@@ -48,6 +48,7 @@ f\n 47\n 48\n 49\n+new\n 51\n 52\n 53\n";

describe("rows", () => {
  it("puts folds between hunks and at both ends", () => {
    expect(shape(view())).toEqual([
      "file",
      "gap 1+9 @10",
      "one",
      "two",
      "TWO",
      "three",
      "four",
      "five",
      "gap 14+26 @41",
      "-- looks like a header",
      "++ so does this",
      "end",
    ]);
  });

  it("offers the rest of a file only where there may be more", () => {
    const last = (lines: string) =>
      shape(view({ loaded: loadedWith(`diff --git a/a.go b/a.go\n@@ -1,9 +1,9 @@\n-two\n+TWO\n${lines}`) })).at(-2);
    expect(last(" three\n four\n five\n")).toMatch(/^gap/);
    expect(last(" three\n four\n")).toBe("four");
    expect(last("")).toBe("TWO");
  });

  it("pairs lines side by side", () => {
    expect(shape(view(), { split: true }).filter((t) => t.includes("|"))).toEqual([
      "one|one",
      "two|TWO",
      "·|three",
      "four|four",
      "five|five",
      "-- looks like a header|++ so does this",
    ]);
  });

  it("stops where a block of changes starts", () => {
    const f = view();
    const r = fileRows(f, options);
    const p = f.loaded.state === "ready" ? f.loaded.patch : undefined;
    expect(Array.from({ length: r.n }, (_, i) => i).filter((i) => isChangeStart(r, p, i))).toEqual([3, 9]);
  });

  it("shows nothing of what is folded until asked", () => {
    const f = view({ file: changed({ folded: "huge", additions: 900 }) });
    expect(shape(f)).toEqual(["file", "note folded"]);
    expect(shape({ ...f, folded: false }).length).toBeGreaterThan(5);
    expect(shape(view({ file: changed({ folded: "secret" }), folded: false }))).toEqual(["file", "note folded"]);
    expect(shape(view({ viewed: true }))).toEqual(["file"]);
    expect(shape(view({ file: changed({ folded: "binary", binary: true, path: "a.png" }) }))).toEqual([
      "file",
      "picture",
      "end",
    ]);
  });

  it("opens folds of a whole file from either side", () => {
    const whole = (opened: FileView["opened"]) =>
      shape(view({ loaded: loadedWith(hundred, true, hundred3), opened })).filter((t) => t.startsWith("gap"));
    expect(whole(new Map())).toEqual(["gap 1+47 @48", "gap 54+46"]);
    expect(whole(new Map([[1, { top: 0, bottom: 20 }]]))).toEqual(["gap 1+27", "gap 54+46"]);
    const all = new Map([
      [1, { top: 20, bottom: 27 }],
      [54, { top: 46, bottom: 0 }],
    ]);
    expect(whole(all)).toEqual([]);
    expect(shape(view({ loaded: loadedWith(hundred, true, hundred3), opened: all })).length).toBe(102);
  });

  it("gives every hunk a head where somebody acts on hunks", () => {
    const all = new Map([[1, { top: 1000, bottom: 0 }]]);
    const f = view({ loaded: loadedWith(hundred, true, hundred3), opened: all });
    const rows = shape(f, { hunkHeads: true });
    expect(rows[48]).toBe("gap 0+0 @48");
    expect(rows[49]).toBe("47");
  });

  it("puts slots below their lines, and brings lines into sight for them", () => {
    const slot = (key: string, side: "old" | "new", line: number) => ({ key, side, line });
    expect(shape(view(), {}, [slot("f", "new", 0), slot("a", "new", 12), slot("b", "old", 11)])).toEqual([
      "file",
      "slot f",
      "gap 1+9 @10",
      "one",
      "two",
      "slot b",
      "TWO",
      "three",
      "slot a",
      "four",
      "five",
      "gap 14+26 @41",
      "-- looks like a header",
      "++ so does this",
      "end",
    ]);
    // A line that is not loaded: the slot waits at the end, and the whole file is asked for.
    expect(fileRows(view(), options, [slot("x", "new", 20)]).wantsWhole).toBe(true);
    expect(shape(view(), {}, [slot("x", "new", 20)]).at(-2)).toBe("slot x");
    const near = shape(view({ loaded: loadedWith(hundred, true, hundred3) }), {}, [slot("x", "new", 20)]);
    expect(near.slice(1, 10)).toEqual(["gap 1+16", "16", "17", "18", "19", "slot x", "20", "21", "22"]);
  });

  it("says why there is nothing to show", () => {
    const empty = (text: string, over: Partial<ChangedFile> = {}) =>
      shape(view({ file: changed(over), loaded: loadedWith(`diff --git a/a.go b/a.go\n${text}`) })).filter((t) =>
        t.startsWith("note"),
      );
    expect(empty("old mode 100644\nnew mode 100755\n", { mode: "100755" })).toEqual(["note mode"]);
    expect(empty("", { size: 0, status: "added" })).toEqual(["note empty"]);
    expect(empty("rename from a\nrename to b\n", { status: "renamed" })).toEqual(["note same"]);
  });
});

describe("layout", () => {
  it("knows how high rows are, and learns what they turned out to be", () => {
    const [patch] = parsePatch(bytes(`diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+short\n+${"x".repeat(150)}\n`));
    const f = view({
      file: changed({ status: "added" }),
      loaded: { state: "ready", patch: patch!, hunks: [], whole: false },
    });
    const rows = fileRows(f, options);
    const heights = new Map<string, number>();
    const l = new FileLayout(rows, f, 860, false, heights);
    expect([...l.tops]).toEqual([0, 38, 58, 98, 114]);
    expect(l.measure([[1, 20]])).toBe(false);
    expect(l.measure([[1, 60]])).toBe(true);
    expect(new FileLayout(rows, f, 860, false, heights).height).toBe(154);
    expect([l.at(0), l.at(57), l.at(58), l.at(1000)]).toEqual([0, 1, 2, 3]);
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
  it("minds no capitals", () => {
    expect(findIn("Foo foo", "FOO")).toEqual([
      [0, 3],
      [4, 7],
    ]);
    expect(findIn("x", "")).toEqual([]);
  });
  it("knows files by name", () => {
    expect(languageOf("a/b.tsx")).toBe("typescript");
    expect(languageOf("x/Dockerfile")).toBe("dockerfile");
    expect(languageOf("LICENSE")).toBeUndefined();
  });
});
