import { expect, it } from "vitest";
import type { MyQuota } from "@/costs/api";
import type { Place } from "./remote";
import { localHelps } from "./used-up";

it("offers this server only where its own time does not count", () => {
  const mine = { counted_places: ["bubblewrap", "docker"] } as MyQuota;
  const alone = { counted_places: [] as string[] } as MyQuota;
  const box = { kind: "bubblewrap" } as Place;
  for (const code of ["quota_exceeded", "concurrency_limit"]) {
    expect(localHelps(code, box, mine)).toBe(false);
    expect(localHelps(code, { kind: "local" } as Place, mine)).toBe(true);
    expect(localHelps(code, box, alone)).toBe(true);
  }
  expect(localHelps("budget_exceeded", box, mine)).toBe(true); // it costs nothing
});
