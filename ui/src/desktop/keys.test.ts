import { expect, test } from "vitest";
import { keysymOfKey, keysymsOf, program } from "./keys";

test("text becomes keysyms", () => {
  expect(keysymsOf("aé\n€😀")).toEqual([0x61, 0xe9, 0xff0d, 0x010020ac, 0x0101f600]);
  expect(keysymOfKey("Backspace")).toBe(0xff08);
  expect(keysymOfKey("a")).toBeUndefined();
});

test("an address opens as a page, anything else as a program with its arguments", () => {
  expect(program(" https://example.com/a b ")).toEqual({ url: "https://example.com/a b" });
  expect(program(`xterm -T "two words" -e 'ls -l'`)).toEqual({ argv: ["xterm", "-T", "two words", "-e", "ls -l"] });
  expect(program("  ")).toBeUndefined();
});
