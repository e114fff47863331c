import { describe, expect, it } from "vitest";
import type { Workspace } from "@/api/client";
import { offlineMachine, offlineWords } from "./offline";
import type { Place, RemoteSandbox } from "./remote";

const NOW = new Date(2027, 1, 3, 15, 30).getTime();
const TWO = new Date(2027, 1, 3, 14, 2).getTime();

describe("a workspace on a machine", () => {
  const w = { executor: "runner", runner_id: "m1", runner_name: "Work Laptop", boundary: "none" } as Workspace;
  const there = { kind: "runner", runner_id: "m1", offline_since: null } as Place;
  const box = (online: boolean) =>
    ({
      executor: "runner",
      runner_id: "m1",
      machine: { name: "Work Laptop", online, offline_since: online ? null : TWO, reason: online ? "" : "it sleeps" },
    }) as RemoteSandbox;

  it("knows when its machine is offline", () => {
    expect(offlineMachine(w, there, box(true))).toBeUndefined();
    const offline = offlineMachine(w, { ...there, offline_since: TWO }, box(false));
    expect(offline).toEqual({ name: "Work Laptop", since: TWO, reason: "it sleeps" });
    expect(offlineWords(offline!, NOW)).toMatch(/^Work Laptop has been offline since .*2:02/);
    // Somebody who may not choose the machine still sees that it is offline.
    expect(offlineMachine(w, undefined, box(false))?.since).toBe(TWO);
    expect(offlineMachine(w, undefined, undefined)).toBeUndefined();
    expect(offlineMachine({ ...w, runner_id: undefined }, undefined, box(false))).toBeUndefined();
  });
});
