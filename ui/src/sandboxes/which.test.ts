import { describe, expect, it } from "vitest";
import type { Place } from "./remote";
import { firstPlace, livesIn, placeBody, placeId } from "./which";

describe("places", () => {
  const place = (over: Partial<Place>) =>
    ({ kind: "docker", available: true, allowed: true, default: false, ...over }) as Place;
  const docker = place({ default: true });
  const laptop = place({ kind: "runner", runner_id: "m1" });
  const tower = place({ kind: "runner", runner_id: "m2" });

  it("are distinguished by their machine", () => {
    expect([placeId(docker), placeId(laptop)]).toEqual(["docker", "runner:m1"]);
    expect(placeId({ kind: "runner:m1", runner_id: "m1" })).toBe("runner:m1");
    expect(livesIn({ executor: "runner", runner_id: "m2" })).toBe("runner:m2");
    expect(placeBody("runner:m1")).toEqual({ executor: "runner", runner_id: "m1" });
    expect(placeBody("docker")).toEqual({ executor: "docker" });
  });
  it("begin with what the server suggests, and ask where it says so", () => {
    const all = [docker, laptop, tower];
    const one = { executor: "runner", runner_id: "m1", ask: false };
    expect(firstPlace(all, one, "docker")).toBe("runner:m1");
    expect(firstPlace(all, { ...one, ask: true }, undefined)).toBe("");
    expect(firstPlace(all, { ...one, ask: true }, "runner:m2")).toBe("");
    expect(firstPlace(all, { ...one, ask: true }, "runner:m1")).toBe("runner:m1");
    expect(firstPlace(all, { executor: "", runner_id: "", ask: true }, "docker")).toBe("");
  });
  it("begin with what this browser remembers, else the default, where nothing is suggested", () => {
    expect(firstPlace([docker, laptop], undefined, "runner:m1")).toBe("runner:m1");
    expect(firstPlace([docker, laptop], undefined, "runner:gone")).toBe("docker");
    expect(firstPlace([docker, { ...laptop, available: false }], undefined, "runner:m1")).toBe("docker");
    expect(firstPlace(undefined, undefined, undefined)).toBe("");
  });
});
