import { describe, expect, it } from "vitest";
import type { Session } from "@/api/client";
import { blankWords, endOf, preferred, sessionMark } from "./sessions";

const session = (over: Partial<Session>): Session => ({
  id: "ses",
  workspace_id: "ws",
  agent: "claude-code",
  account_id: "",
  permissions: "ask",
  agent_name: "Claude Code",
  argv: [],
  watchers: [],
  state: "exited",
  state_reason: "",
  state_at: 0,
  state_source: "",
  attention: null,
  evidence: [],
  title: "",
  cols: 120,
  rows: 32,
  prompt: "",
  created_by: "",
  started_at: 0,
  ended_at: 65_000,
  exit_code: 0,
  exit_signal: "",
  bytes: 0,
  can_resume: true,
  question: null,
  ...over,
});

describe("endOf", () => {
  it.each([
    [session({}), "Done after 1 min 5 s."],
    [session({ exit_code: 3, state_reason: "exited with code 3" }), "Exited with code 3 after 1 min 5 s."],
    [
      session({ exit_code: null, exit_signal: "SIGTERM", state_reason: "stopped by Mika Kaur" }),
      "Ended by SIGTERM after 1 min 5 s. Stopped by Mika Kaur.",
    ],
    [session({ state: "lost", exit_code: null }), "Lost after 1 min 5 s. Its sandbox no longer exists."],
    [
      session({ state: "failed", exit_code: null, state_reason: "no such program" }),
      "Failed after 1 min 5 s. No such program.",
    ],
  ])("%#", (s, want) => expect(endOf(s)).toBe(want));
});

describe("sessions", () => {
  it("calls a code that is not 0 a failure, unless somebody stopped it or it is a shell", () => {
    expect(sessionMark(session({ exit_code: 1 })).mark).toBe("failed");
    expect(sessionMark(session({ exit_code: 1, agent: "shell" })).mark).toBe("stopped");
    expect(sessionMark(session({ exit_code: 143, state_reason: "stopped by Ana" })).mark).toBe("stopped");
    expect(sessionMark(session({})).mark).toBe("done");
  });

  it("shows first who waits, then who runs, then the newest", () => {
    const old = session({ id: "old", state: "idle", started_at: 1 });
    const ended = session({ id: "ended", started_at: 9 });
    expect(preferred([ended, old])?.id).toBe("old");
    expect(preferred([old, session({ id: "asks", state: "waiting", started_at: 0 })])?.id).toBe("asks");
    expect(preferred([ended, session({ id: "setup", agent: "setup", started_at: 99 })])?.id).toBe("ended");
  });
});

it("says of a terminal without output whether its program starts or runs", () => {
  expect(blankWords(session({ state: "starting", ended_at: null }))).toBe("Starting Claude Code");
  for (const state of ["idle", "working", "waiting"] as const)
    expect(blankWords(session({ state, ended_at: null }))).toBe("Claude Code runs and has not printed anything yet.");
});
