import { expect, test } from "vitest";
import { workspaceSearch } from "./search";

test("an address leads to a run or an artifact, and to nothing else", () => {
  const item = (v: unknown) => workspaceSearch({ tab: "code", item: v }).item;
  expect(item("code_06h1q4244c00f6sghksang6zsv")).toBe("code_06h1q4244c00f6sghksang6zsv");
  expect(item("art_06h1q4244c00f6sghksang6zsv")).toBe("art_06h1q4244c00f6sghksang6zsv");
  for (const v of ["ws_1", "code_../x", "code_", 7, undefined]) expect(item(v)).toBeUndefined();
});
