import { describe, expect, it } from "vitest";
import { ending, parts } from "./results";

describe("the parts of an output", () => {
  it("shows a picture before a page before text", () => {
    expect(parts({ type: "result", data: { "image/png": "AAAA", "text/plain": "a figure" } }).image).toBe(
      "data:image/png;base64,AAAA",
    );
    expect(parts({ type: "result", data: { "text/html": "<b>x</b>", "text/plain": "x" } }).page).toBe("<b>x</b>");
    expect(parts({ type: "result", data: { "text/plain": "42" } }).text).toBe("42");
    expect(parts({ type: "result", data: { "application/json": { a: 1 } } }).text).toBe('{\n  "a": 1\n}');
  });
  it("keeps what is printed as it is, and names artifacts", () => {
    expect(parts({ type: "stdout", text: "<b>" }).text).toBe("<b>");
    expect(parts({ type: "result", artifacts: { "image/png": "art_1" } }).artifacts).toEqual([["image/png", "art_1"]]);
  });
  it("does not put a script into the page by a picture", () => {
    expect(parts({ type: "result", data: { "image/svg+xml": '<svg onload="x">' } }).image).not.toContain("<");
  });
});

describe("how a run ended", () => {
  it("says why, where there is a cause", () => {
    expect(ending({ state: "ok", cause: "", exit_code: null })).toBe("");
    expect(ending({ state: "failed", cause: "", exit_code: 3 })).toBe("Exit code 3.");
    expect(ending({ state: "died", cause: "it used 3 GB", exit_code: null })).toContain("it used 3 GB");
  });
});
