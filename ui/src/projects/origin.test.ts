import { expect, it } from "vitest";
import { originOf } from "./origin";

it("names a project's origin without a folder the user may not see", () => {
  expect(originOf({ kind: "url", url: "https://example.com/r.git" })).toBe("https://example.com/r.git");
  expect(originOf({ kind: "path", path: "/srv/r" })).toBe("/srv/r");
  expect(originOf({ kind: "path" })).toBe("A folder on the server");
  expect(originOf({ kind: "sample" })).toBe("The sample repository");
});
