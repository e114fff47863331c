import { describe, expect, it } from "vitest";
import { countdown, fate, goesOn, parseGrace, raise } from "./grace";

describe("a grace", () => {
  it("counts down like a clock and stops at nothing", () => {
    expect([300_000, 247_000, 59_001, 1, 0, -5, 3_661_000].map(countdown)).toEqual([
      "5:00",
      "4:07",
      "1:00",
      "0:01",
      "0:00",
      "0:00",
      "1:01:01",
    ]);
  });

  it("is read from a state frame by the time that is left", () => {
    const g = parseGrace({ scope: "team_budget", state: "counting", reason: "r", ends_at: 5, left_ms: 1000 }, 100);
    expect(g).toEqual({ scope: "team_budget", state: "counting", reason: "r", endsAt: 1100 });
    expect([parseGrace(undefined, 1), parseGrace(null, 1), parseGrace({ scope: 1 }, 1)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("says what becomes of the work and what has it go on", () => {
    expect(fate("counting")).toContain("is paused in");
    expect(goesOn("team_budget", "stopped")).toContain("automatically");
    expect(goesOn("team_budget", "ended")).toContain("Resume");
    expect(raise("user_hours")?.section).toBe("quotas");
    expect(raise("session_minutes")).toBeUndefined();
  });
});
