import { describe, expect, it } from "vitest";
import type { Session } from "@/api/client";
import { basis, type Evidence, ordered, since } from "./evidence";
import { sessionMark } from "./sessions";

const word = (over: Partial<Evidence>): Evidence => ({
  source: "title",
  says: "idle",
  text: "",
  at: 0,
  since: 0,
  counts: true,
  ...over,
});
const session = (over: Partial<Session>) =>
  ({ state: "idle", state_source: "", attention: null, evidence: [], ...over }) as Session;

describe("evidence", () => {
  it("tells its age to the second while that matters", () => {
    expect(since(0, 400)).toBe("now");
    expect(since(0, 12_900)).toBe("12 s");
    expect(since(0, 90_000)).toBe("1 min");
    expect(since(0, 7_200_000)).toBe("2 h");
    expect(since(0, 3 * 86_400_000)).toBe("3 d");
    expect(since(5_000, 0)).toBe("now");
  });

  it("puts what counts first, then the newest", () => {
    const list = [word({ source: "hook", at: 9, counts: false }), word({ at: 1 }), word({ source: "screen", at: 5 })];
    expect(ordered(list).map((e) => e.source)).toEqual(["screen", "title", "hook"]);
  });

  it("says who decided, when, and whether anything came since", () => {
    const asked = word({ source: "notification", says: "waiting", at: 1_000 });
    const waiting = { state: "waiting", state_source: "notification" } as const;
    expect(basis(session({ ...waiting, evidence: [asked] }), 13_000)).toBe(
      "A notification reported it 12 s ago; no signal since.",
    );
    expect(basis(session({ ...waiting, evidence: [asked, word({ at: 9_000 })] }), 13_000)).toBe(
      "A notification reported it 12 s ago.",
    );
    expect(
      basis(session({ attention: { reason: "stuck", text: "", at: 0 }, evidence: [word({})] }), 130_000),
    ).toContain("Nothing has moved for 2 min");
  });

  it("shows an idle session that failed, is stuck or has finished as such", () => {
    const idle = (reason: "failed" | "stuck" | "finished") =>
      sessionMark(session({ attention: { reason, text: "", at: 0 } })).word;
    expect([idle("failed"), idle("stuck"), idle("finished")]).toEqual(["Failed", "Stuck", "Finished"]);
    expect(sessionMark(session({})).word).toBe("Idle");
  });
});
