import { describe, expect, it } from "vitest";
import { endOf, nameOf, totals } from "./words";

describe("sandboxes without a repository", () => {
  it("are totalled by purpose and place, with their cost where it may be seen", () => {
    const execution = { purpose: "execution", executor: "docker" } as const;
    const rows = totals([
      { purpose: "app", executor: "docker", cost_nano: 5 },
      { ...execution, cost_nano: 1 },
      { ...execution, cost_nano: 2 },
      { purpose: "execution", executor: "e2b" },
    ]);
    expect(rows).toEqual([
      { purpose: "execution", place: "docker", count: 2, cost: 3 },
      { purpose: "app", place: "docker", count: 1, cost: 5 },
      { purpose: "execution", place: "e2b", count: 1, cost: undefined },
    ]);
  });

  it("say when they end", () => {
    expect(endOf({ ends_at: 120_000, ends_by: 0 }, 0)).toBe("Ends in 2 min unless it is used");
    expect(endOf({ ends_at: 120_000, ends_by: 120_000 }, 0)).toBe("Ends in 2 min");
    expect(endOf({ ends_at: 120_000, ends_by: 600_000 }, 0)).toBe("Ends in 2 min unless it is used");
    expect(endOf({ ends_at: 1, ends_by: 0 }, 2)).toBe("Ends when it is no longer used");
  });

  it("have a name without a key", () => {
    expect(nameOf({ id: "asb_0123456789", key: "" })).toBe("…456789");
    expect(nameOf({ id: "asb_1", key: "conversation-17" })).toBe("conversation-17");
  });
});
