import { describe, expect, it, test } from "vitest";
import { splitCommand } from "./command";
import { mb, memory } from "./size";
import { bytes, initials, mode, sentence, splitPath, visible } from "./text";
import { age, ago, duration, minutes } from "./time";

describe("time", () => {
  const now = 1_800_000_000_000;
  it.each([
    [0, "now"],
    [59_999, "now"],
    [60_000, "1 min"],
    [3_600_000 * 5, "5 h"],
    [86_400_000 * 12, "12 d"],
    [86_400_000 * 60, "2 mo"],
    [86_400_000 * 800, "2 y"],
    [-5000, "now"],
  ])("age %d", (ms, want) => expect(age(now - ms, now)).toBe(want));
  it("is part of a sentence", () => {
    expect(ago(now, now)).toBe("just now");
    expect(ago(now - 120_000, now)).toBe("2 min ago");
  });
  it.each([
    [20, "<0.1 s"],
    [430, "0.4 s"],
    [12_900, "12 s"],
    [200_000, "3 min 20 s"],
    [7_500_000, "2 h 5 min"],
    [-1, "0 s"],
  ])("duration %d", (ms, want) => expect(duration(ms)).toBe(want));
});

describe("text", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [214_300, "214 KB"],
    [999_600, "1.0 MB"],
    [1_500_000, "1.5 MB"],
    [536_870_912, "537 MB"],
  ])("bytes %d", (n, want) => expect(bytes(n)).toBe(want));

  it("makes hostile names plain", () => {
    expect(visible("a\nb\x1b[31m\u202egpj.exe\u200b")).toBe("a\\nb\\e[31m\\u202egpj.exe\\u200b");
    expect(visible("größe 日本.txt")).toBe("größe 日本.txt");
  });

  it("speaks", () => {
    expect(splitPath("a/b/c.go")).toEqual({ dir: "a/b/", name: "c.go" });
    expect(initials("Mika Kaur")).toBe("MK");
    // Whole characters only.
    expect(initials("Ana Maria Lopez")).toBe("AL");
    expect(initials("  mika ")).toBe("M");
    expect(initials("😀 x")).toBe("😀X");
    expect(initials("")).toBe("?");
    expect(mode("100755")).toBe("executable");
  });

  it("splits a command line as a shell would", () => {
    expect(splitCommand(`npm run "my script" --x='a b' c\\ d ""`)).toEqual([
      "npm",
      "run",
      "my script",
      "--x=a b",
      "c d",
      "",
    ]);
    expect(splitCommand("  ")).toEqual([]);
  });
});

test("sizes and times as people set them", () => {
  expect([mb(512), mb(2048), mb(1536)]).toEqual(["512 MB", "2 GB", "1.5 GB"]);
  expect([memory(340 << 20), memory(1.25 * 2 ** 30)]).toEqual(["340 MB", "1.3 GB"]);
  expect([minutes(45), minutes(60), minutes(2880), minutes(1)]).toEqual(["45 minutes", "1 hour", "2 days", "1 minute"]);
});

test("words of a server as sentences", () => {
  expect([sentence("it is switched off"), sentence("Set it."), sentence(" ")]).toEqual([
    "It is switched off.",
    "Set it.",
    "",
  ]);
});
