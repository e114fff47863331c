import { describe, expect, it } from "vitest";
import { kindOf, readTable } from "./kind";

describe("what an artifact is shown as", () => {
  it.each([
    ["text/markdown; charset=utf-8", "markdown"],
    ["text/csv", "csv"],
    ["text/html", "page"],
    ["image/svg+xml", "image"],
    ["video/mp4", "video"],
    ["application/pdf", "pdf"],
    ["application/json", "text"],
    ["text/x-diff", "text"],
    ["application/zip", "none"],
    ["image/tiff", "none"],
    ["", "none"],
  ])("%s as %s", (mime, kind) => expect(kindOf(mime)).toBe(kind));
});

describe("a table", () => {
  it("has quoted fields, with separators, quotes and lines in them", () => {
    expect(readTable('a,"b, ""c""",\r\n"x\ny",,z', ",", 10)).toEqual({
      rows: [
        ["a", 'b, "c"', ""],
        ["x\ny", "", "z"],
      ],
      more: false,
    });
  });

  it("ends after so many rows", () => {
    expect(readTable("a\nb\nc\n", ",", 2)).toEqual({ rows: [["a"], ["b"]], more: true });
    expect(readTable("a\nb\n", ",", 2)).toEqual({ rows: [["a"], ["b"]], more: false });
    expect(readTable("", ",", 2)).toEqual({ rows: [], more: false });
  });
});
