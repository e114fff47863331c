import { expect, test } from "vitest";
import { findParts, PAGES, PARTS, pageOf, type Section } from "./sections";

const all = Object.keys(PARTS) as Section[];

test("every part is on one page, and no page is without parts", () => {
  expect(PAGES.flatMap((p) => [...p.parts]).sort()).toEqual([...all].sort());
  expect(PAGES.length).toBeLessThanOrEqual(13);
  expect(pageOf("tokens")?.name).toBe("Security");
  expect(pageOf("nothing")).toBeUndefined();
});

test("parts are found by what people call them", () => {
  expect(findParts("dark", all)).toEqual(["appearance"]);
  expect(findParts("api key", all)[0]).toBe("tokens");
  expect(findParts("kubernetes", all)).toEqual(["places"]);
  expect(findParts("audit", all)).toEqual(["audit", "server-audit"]);
  expect(findParts("server audit", all)).toEqual(["server-audit"]);
  expect(findParts("budget", ["profile"])).toEqual([]);
  expect(findParts("nothing of the kind", all)).toEqual([]);
});
