import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventPump, parseEvent, staleAfter } from "./events";
import { keys } from "./queries";

const event = (type: string, id = "x", workspace_id?: string) => ({ type, id, workspace_id, version: 1, seq: 1 });

describe("events", () => {
  it("reads what the server sends and ignores the rest", () => {
    expect(parseEvent('{"type":"changes.updated","id":"ws_1","workspace_id":"ws_1","version":7,"seq":3}')).toEqual({
      type: "changes.updated",
      id: "ws_1",
      workspace_id: "ws_1",
      version: 7,
      seq: 3,
    });
    for (const bad of ["", "null", "{}", "[1]", "{"]) expect(parseEvent(bad)).toBeUndefined();
  });

  it("knows what each makes stale", () => {
    expect(staleAfter("t", event("project.updated", "prj_1"))).toContainEqual(keys.project("prj_1"));
    expect(staleAfter("t", event("changes.updated", "ws_1", "ws_1"))).toContainEqual(keys.changes("ws_1"));
    expect(staleAfter("t", event("session.updated", "ses_1", "ws_1"))).toContainEqual(keys.sessions("ws_1"));
    expect(staleAfter("t", event("tokens.updated", "ses_1", "ws_1"))).toEqual([
      ["costs", "t"],
      keys.costs("ws_1"),
      keys.sessions("ws_1"),
    ]);
    expect(staleAfter("t", event("budget.updated"))).toContainEqual(keys.executors("t"));
    expect(staleAfter("t", event("grace.updated", "ws_1"))).toContainEqual(keys.sandbox("ws_1"));
    // Comparisons and reviews are of the newest snapshot: all of the workspace is read again.
    expect(staleAfter("t", event("snapshots.updated", "ws_1", "ws_1"))).toEqual([keys.workspace("ws_1")]);
    // Agents call tools all the time: nothing else is read again.
    expect(staleAfter("t", event("tools.called", "ws_1", "ws_1"))).toEqual([keys.toolCalls("ws_1")]);
    expect(staleAfter("t", event("edits.updated", "ws_1", "ws_1"))).toEqual([keys.edits("ws_1")]);
    // A subagent two levels below a session may be asked for in another workspace than the session's.
    expect(staleAfter("t", event("subagent.changed", "sub_1", "ws_2"))).toEqual([
      keys.subagents("t", "x").slice(0, -1),
    ]);
    expect(staleAfter("t", event("something.new"))).toEqual([["team", "t"]]);
  });
});

describe("pump", () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it("applies a burst once, its first event at once", () => {
    const client = new QueryClient();
    const invalidate = vi.spyOn(client, "invalidateQueries");
    const pump = new EventPump(client, "t", 250);
    pump.push(event("changes.updated", "ws_1", "ws_1"));
    vi.advanceTimersByTime(0);
    const first = invalidate.mock.calls.length;
    expect(first).toBeGreaterThan(0);
    for (let i = 0; i < 100; i++) pump.push(event("changes.updated", "ws_1", "ws_1"));
    vi.advanceTimersByTime(249);
    expect(invalidate.mock.calls.length).toBe(first);
    vi.advanceTimersByTime(1);
    expect(invalidate.mock.calls.length).toBe(2 * first);
    pump.stop();
  });
});
