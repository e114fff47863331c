import { describe, expect, it } from "vitest";
import { readSgr } from "./sgr";

const theme = { foreground: "#fff", background: "#000", red: "red!", brightBlue: "blue!" };
const read = (s: string) =>
  readSgr(s, theme).map((r) => Object.fromEntries(Object.entries(r).filter(([, v]) => v !== undefined && v !== false)));

describe("readSgr", () => {
  it("reads plain text as one run", () => {
    expect(read("hello")).toEqual([{ text: "hello" }]);
    expect(read("")).toEqual([]);
  });

  it("reads styles and colours of all kinds", () => {
    expect(read("a\x1b[31mb\x1b[39;1mc\x1b[0;94md\x1b[m e")).toEqual([
      { text: "a" },
      { text: "b", color: "red!" },
      { text: "c", bold: true },
      { text: "d", color: "blue!" },
      { text: " e" },
    ]);
    expect(read("\x1b[38;5;196;48;2;1;2;3mx\x1b[38:2::9:8:7;4:3my\x1b[58;5;1;24mz")).toEqual([
      { text: "x", color: "rgb(255,0,0)", background: "rgb(1,2,3)" },
      { text: "y", color: "rgb(9,8,7)", background: "rgb(1,2,3)", underline: true },
      { text: "z", color: "rgb(9,8,7)", background: "rgb(1,2,3)" },
    ]);
    expect(read("\x1b[38;5;250;3;9mx")).toEqual([{ text: "x", color: "rgb(188,188,188)", italic: true, strike: true }]);
  });

  it("turns inverse text round and hides what is hidden", () => {
    expect(read("\x1b[7;31mx\x1b[27;8mab")).toEqual([
      { text: "x", color: "#000", background: "red!" },
      { text: "  ", color: "red!" },
    ]);
  });
});
