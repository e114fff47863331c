import { describe, expect, it } from "vitest";
import { mentionAt, nameFrom } from "./derive";

describe("nameFrom", () => {
  it.each([
    ["", ""],
    ["  \n\n", ""],
    ["Fix the flaky test.", "Fix the flaky test"],
    ["\n## Retry `webhooks`\nwith jitter", "Retry webhooks"],
    ["- [ ] one\n- two", "[ ] one"],
    [
      "Add an option that prints the most frequent words of a text and how often they occur",
      "Add an option that prints the most frequent words of a text",
    ],
    ["x".repeat(80), "x".repeat(60)],
    ["😀".repeat(80), "😀".repeat(60)],
  ])("%j", (prompt, want) => {
    expect(nameFrom(prompt)).toBe(want);
  });
});

describe("mentionAt", () => {
  it.each([
    ["Look at @src/ma", 15, { start: 8, path: "src/ma" }],
    ["@", 1, { start: 0, path: "" }],
    ["Mail a@b.c", 10, undefined],
    ["@done and more", 14, undefined],
    ["see @a then", 6, { start: 4, path: "a" }],
  ])("%j at %i", (text, cursor, want) => {
    expect(mentionAt(text, cursor)).toEqual(want);
  });
});
