import { describe, expect, it } from "vitest";
import { ApiError } from "@/api/problem";
import { conflictsOf, madeBy } from "./edit-words";

const edit = { agent: "", tool: "", operation: "", calls: [], evidence: "interval" as const };

describe("who made an edit", () => {
  it("names the agent and its tool, or the person and what Parawork did", () => {
    expect(madeBy({ ...edit, agent: "claude", tool: "Write", evidence: "record" })).toBe("claude · Write");
    expect(madeBy({ ...edit, by: { id: "usr_1", name: "Ada" }, operation: "undo", evidence: "operation" })).toBe(
      "Ada · undo",
    );
  });

  it("claims no more than is known", () => {
    expect(madeBy({ ...edit, agent: "codex", calls: ["a", "b", "c"] })).toBe("codex · one of 3 calls");
    expect(madeBy(edit)).toBe("Unknown");
  });
});

describe("a refused undo", () => {
  const refused = (code: string, details: Record<string, unknown>) =>
    new ApiError(409, { code, message: "no", details, request_id: "r" });
  const place = { line: 3, present: "now\n", edited: "edited\n", before: "before\n" };

  it("has the places that contradict it, of which the server may name only some", () => {
    expect(conflictsOf(refused("edit_conflict", { conflicts: [place], total: 7 }))).toEqual({
      places: [place],
      total: 7,
    });
    expect(conflictsOf(refused("edit_conflict", {}))).toEqual({ places: [], total: 0 });
    expect(conflictsOf(refused("edit_conflict", { conflicts: [{ line: "3" }, null, place] }))?.places).toEqual([place]);
  });

  it("is not a conflict if something else failed", () => {
    expect(conflictsOf(refused("edit_expired", { conflicts: [place] }))).toBeUndefined();
    expect(conflictsOf(new Error("no network"))).toBeUndefined();
  });
});
