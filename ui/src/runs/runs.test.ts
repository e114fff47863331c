import { describe, expect, it } from "vitest";
import type { Session, Workspace } from "@/api/client";
import { type Attempt, attemptMark, modelOf, took } from "./runs";

const session = (more: Partial<Session>): Session =>
  ({
    state: "working",
    state_reason: "",
    started_at: 1000,
    state_at: 5000,
    ended_at: null,
    exit_code: null,
    ...more,
  }) as Session;
const attempt = (more: Partial<Attempt>): Attempt =>
  ({
    id: "a",
    state: "started",
    reason: "",
    session: session({}),
    workspace: { state: "ready" } as Workspace,
    ...more,
  }) as Attempt;

describe("attempts of a run", () => {
  it("says where one stands", () => {
    expect(attemptMark(attempt({ state: "making" })).word).toBe("Creating the workspace");
    expect(attemptMark(attempt({ state: "failed", reason: "no such branch" }))).toEqual({
      mark: "failed",
      word: "Failed",
      why: "no such branch",
    });
    expect(attemptMark(attempt({})).word).toBe("Working");
    expect(attemptMark(attempt({ session: session({ state: "waiting", state_reason: "asks" }) })).why).toBe("asks");
    expect(attemptMark(attempt({ workspace: { state: "archived" } as Workspace })).word).toBe("Archived");
    expect(attemptMark(attempt({ session: null })).word).toBe("Deleted");
  });

  it("knows the model its arguments name", () => {
    expect(modelOf(["--mode", "plan", "--model", "sonnet"])).toBe("sonnet");
    expect(modelOf(["--model=o3"])).toBe("o3");
    expect(modelOf(["-m"])).toBe("");
  });

  it("says how long it took", () => {
    expect(took(null, 9000)).toBeUndefined();
    expect(took(session({}), 9000)).toBe(8000);
    expect(took(session({ state: "idle" }), 9000)).toBe(4000);
    expect(took(session({ state: "exited", ended_at: 3000 }), 9000)).toBe(2000);
  });
});
