import { expect, it } from "vitest";
import { doubtIn } from "./doubt";

it("tells a server that doubts its database from any other", () => {
  expect(doubtIn({ status: "degraded", version: "1", reason: "Rows are missing." })).toBe("Rows are missing.");
  expect(doubtIn({ status: "degraded", version: "1" })).toMatch(/log/);
  for (const other of [{ status: "ok" }, { status: "starting", reason: "It waits." }, null, "degraded", undefined])
    expect(doubtIn(other)).toBeUndefined();
});
