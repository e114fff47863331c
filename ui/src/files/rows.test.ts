import { describe, expect, it } from "vitest";
import { treeMove } from "./move";
import {
  type Entry,
  type FilesRow,
  filesRows,
  foldersOf,
  type Listing,
  marksOf,
  seenFolders,
  staleFolders,
} from "./rows";

const entry = (path: string, type: Entry["type"] = "file"): Entry => ({
  path,
  name: path.slice(path.lastIndexOf("/") + 1),
  type,
  size: 1,
});

const listings = new Map<string, Listing>([
  [
    "",
    { items: [entry("file10"), entry("file9"), entry("src", "dir"), entry("docs", "dir"), entry("link", "symlink")] },
  ],
  ["src", { items: [entry("src/main.go"), entry("src/deep", "dir")] }],
]);
const none = marksOf([]);

const drawn = (rows: FilesRow[]) =>
  rows.map((r) => {
    const tail = r.kind === "note" ? r.note : r.kind === "folder" ? (r.open ? "v" : ">") : (r.status ?? "");
    return `${"  ".repeat(r.depth)}${r.name} ${tail}`.trimEnd();
  });

describe("filesRows", () => {
  it("puts folders first, in the order of numbers", () => {
    expect(drawn(filesRows(listings, new Set(), none))).toEqual(["docs >", "src >", "file9", "file10", "link"]);
  });

  it("shows what is in an open folder, and that one is still being read", () => {
    expect(drawn(filesRows(listings, new Set(["docs", "src", "src/deep"]), none))).toEqual([
      "docs v",
      "   loading",
      "src v",
      "  deep v",
      "     loading",
      "  main.go",
      "file9",
      "file10",
      "link",
    ]);
  });

  it("says that a folder is empty, could not be read, or has more than is listed", () => {
    const some = new Map<string, Listing>([
      ["", { items: [entry("a", "dir"), entry("b", "dir"), entry("c", "dir")] }],
      ["a", { items: [] }],
      ["b", { error: new Error("no") }],
      ["c", { items: [entry("c/1"), entry("c/2")], truncated: true }],
    ]);
    const rows = filesRows(some, new Set(["a", "b", "c"]), none);
    expect(drawn(rows)).toEqual(["a v", "   empty", "b v", "   failed", "c v", "  1", "  2", "   truncated"]);
    expect(rows.at(-1)).toMatchObject({ shown: 2, size: 3, at: 3 });
    expect(new Set(rows.map((r) => r.path)).size).toBe(rows.length);
  });

  it("marks changed files and the folders they are in", () => {
    const marks = marksOf([
      { path: "src/main.go", status: "modified" },
      { path: "file9", status: "untracked" },
      { path: "docs/gone.md", status: "deleted" },
    ]);
    const rows = filesRows(listings, new Set(["src"]), marks);
    expect(rows.flatMap((r) => (r.kind === "folder" && r.changed ? r.path : []))).toEqual(["docs", "src"]);
    expect(rows.flatMap((r) => (r.kind === "file" && r.status ? `${r.path} ${r.status}` : []))).toEqual([
      "src/main.go modified",
      "file9 added",
    ]);
  });

  it("filters what was read, in closed folders too", () => {
    expect(drawn(filesRows(listings, new Set(), none, " MAIN "))).toEqual(["src v", "  main.go"]);
    expect(drawn(filesRows(listings, new Set(), none, "deep"))).toEqual(["src v", "  deep >"]);
    expect(filesRows(listings, new Set(), none, "nowhere")).toEqual([]);
  });

  it("tells each row how many its folder holds and which of them it is", () => {
    expect(filesRows(listings, new Set(), none).map((r) => `${r.at}/${r.size}`)).toEqual([
      "1/5",
      "2/5",
      "3/5",
      "4/5",
      "5/5",
    ]);
  });
});

describe("folders", () => {
  it("are read only where they can be seen", () => {
    expect(foldersOf("a/b/c.txt")).toEqual(["a", "a/b"]);
    expect(seenFolders(new Set(["a/b", "a", "x/y"]))).toEqual(["", "a", "a/b"]);
  });

  it("are read again when a file comes or goes, not when its text changes", () => {
    const before = marksOf([{ path: "a/b/new", status: "untracked" }]);
    expect(staleFolders(before, marksOf([{ path: "a/b/new", status: "added" }]))).toEqual(new Set());
    expect(staleFolders(none, marksOf([{ path: "a/x", status: "modified" }]))).toEqual(new Set());
    expect(staleFolders(none, before)).toEqual(new Set(["", "a", "a/b"]));
    expect(staleFolders(before, none)).toEqual(new Set(["", "a", "a/b"]));
    expect(staleFolders(none, marksOf([{ path: "c/x", status: "deleted" }]))).toEqual(new Set(["", "c"]));
    expect(staleFolders(none, marksOf([{ path: "e/x", old_path: "d/x", status: "renamed" }]))).toEqual(
      new Set(["", "d", "e"]),
    );
  });
});

describe("treeMove", () => {
  const rows = [
    { kind: "folder", depth: 0, open: true },
    { kind: "file", depth: 1 },
    { kind: "folder", depth: 0, open: false },
  ];
  it.each([
    ["ArrowDown", 0, { to: 1 }],
    ["ArrowDown", 2, { to: 2 }],
    ["ArrowUp", 0, { to: 0 }],
    ["End", 0, { to: 2 }],
    ["Home", 2, { to: 0 }],
    ["ArrowRight", 0, { to: 1 }],
    ["ArrowRight", 1, { to: 1 }],
    ["ArrowRight", 2, { open: true }],
    ["ArrowLeft", 0, { open: false }],
    ["ArrowLeft", 1, { to: 0 }],
    ["Enter", 1, "use"],
    ["a", 1, undefined],
  ])("%s on row %i", (key, at, want) => {
    expect(treeMove(key, rows, at)).toEqual(want);
  });
});
