import { expect, it } from "vitest";
import { ApiError } from "@/api/problem";
import { clearProblem, noteProblem, problems, serveProblem } from "./problem";

const error = (code: string, details: Record<string, unknown>) =>
  new ApiError(503, { code, message: "E2B has no room now.", details, request_id: "req_1" });

it("reads why a place cannot serve, and only ways it knows", () => {
  const problem = serveProblem(
    error("place_cannot_serve", { reason: "capacity", ways: ["free_place", "retry", "dance", 7] }),
  );
  expect(problem).toEqual({
    reason: "capacity",
    message: "E2B has no room now.",
    ways: ["retry", "free_place"],
    requestId: "req_1",
  });
  expect(serveProblem(error("place_cannot_serve", {}))?.ways).toEqual(["retry", "free_place"]);
  expect(serveProblem(error("sandbox_failed", { ways: ["retry"] }))).toBeUndefined();
  expect(serveProblem(new Error("no"))).toBeUndefined();
});

it("reads what a quota keeps from beginning, with its figures", () => {
  const problem = serveProblem(
    error("quota_exceeded", {
      scope: "user_hours",
      used: 36_000_000,
      limit: 36_000_000,
      unit: "ms",
      resets_at: 5,
      ways: ["free_place", "upgrade"],
    }),
  );
  expect(problem?.ways).toEqual(["retry", "free_place", "upgrade"]);
  expect(problem?.refusal).toMatchObject({ code: "quota_exceeded", used: 36_000_000, unit: "ms", resetsAt: 5 });
  expect(serveProblem(error("budget_exceeded", { scope: "instance_budget" }))?.refusal?.title).toBe(
    "The server's budget is spent",
  );
  expect(serveProblem(error("place_cannot_serve", {}))?.refusal).toBeUndefined();
});

it("keeps the newest of each workspace until it is cleared", () => {
  expect(noteProblem("ws_1", error("place_cannot_serve", { reason: "quota" }))).toBe(true);
  expect(noteProblem("ws_2", new Error("no"))).toBe(false);
  expect(problems.get().ws_1?.reason).toBe("quota");
  clearProblem("ws_1");
  clearProblem("ws_1");
  expect(problems.get()).toEqual({});
});
