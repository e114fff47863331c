import { expect, test } from "vitest";
import { ApiError } from "@/api/problem";
import { contradictions } from "./undo";

const refused = (code: string, details: Record<string, unknown>) =>
  new ApiError(409, { code, message: "No.", details, request_id: "" });

test("the files and places that stop an undo are read from its answer", () => {
  const place = { line: 3, present: "c", edited: "b", before: "a" };
  const files = [{ path: "a.txt", message: "No.", conflicts: [place, { line: "x" }] }, { path: "b.bin" }, {}, null];
  expect(contradictions(refused("undo_conflict", { files, total: 7 }))).toEqual({
    files: [
      { path: "a.txt", message: "No.", places: [place] },
      { path: "b.bin", message: "", places: [] },
    ],
    total: 7,
  });
  expect(contradictions(refused("undo_conflict", {}))).toEqual({ files: [], total: 0 });
  expect(contradictions(refused("turn_running", { files }))).toBeUndefined();
});
