import { describe, expect, it } from "vitest";
import type { ChangedFile, Comparison } from "@/changes/diff/types";
import { recall } from "@/state/remember";
import type { Comment, Review } from "./data";
import { aboutOf, placeOf, threadsOf } from "./places";
import { begin, end, type, writingIn } from "./writing";

const comment = (over: Partial<Comment>): Comment => ({
  id: "c1",
  review_id: "r1",
  workspace_id: "w",
  reply_to: null,
  author_id: "u",
  author_name: "Ana",
  mine: true,
  path: "a.go",
  side: "new",
  line: 3,
  end_line: 5,
  quoted: "",
  before: [],
  after: [],
  commit: "seen",
  current_path: "b.go",
  current_line: 10,
  outdated: false,
  body: "why?",
  state: "open",
  answered: null,
  resolved_by: null,
  created_at: 1,
  updated_at: 1,
  ...over,
});
const review = (id: string, state: Review["state"], comments: Comment[]): Review => ({
  id,
  workspace_id: "w",
  author_id: "u",
  author_name: "Ana",
  mine: true,
  state,
  verdict: "comment",
  body: "",
  from: "",
  revision: "",
  tree: "",
  session_id: null,
  prompt_id: null,
  reason: "",
  waits: "",
  changed_since: null,
  created_at: 1,
  updated_at: 1,
  sent_at: state === "draft" ? null : 2,
  comments,
});
const file = (path: string, old_path?: string) => ({ path, old_path }) as ChangedFile;
const shown = (from: string, to: string, ...files: ChangedFile[]) =>
  ({ from: { commit: from }, to: { commit: to }, files }) as unknown as Comparison;

describe("where comments stand", () => {
  it("is where they were written while these very files are read", () => {
    expect(placeOf(comment({}), shown("base", "seen", file("a.go")))).toEqual({ path: "a.go", side: "new", line: 5 });
    expect(placeOf(comment({ side: "old", commit: "base" }), shown("base", "x", file("z.go", "a.go")))).toEqual({
      path: "z.go",
      side: "old",
      line: 5,
    });
  });
  it("is where the lines are by now otherwise", () => {
    const now = shown("base", "later", file("b.go"));
    expect(placeOf(comment({}), now)).toEqual({ path: "b.go", side: "new", line: 12 });
    expect(placeOf(comment({ outdated: true }), now)?.line).toBe(10);
    expect(placeOf(comment({ line: 0, end_line: 0 }), now)?.line).toBe(0);
    expect(placeOf(comment({ current_path: "", current_line: 0 }), shown("base", "later", file("a.go")))?.line).toBe(0);
    expect(placeOf(comment({}), shown("base", "later", file("c.go")))).toBeUndefined();
  });
  it("is described in words", () => {
    expect([aboutOf(comment({})), aboutOf(comment({ end_line: 3 })), aboutOf(comment({ line: 0 }))]).toEqual([
      "lines 3 to 5",
      "line 3",
      "the file",
    ]);
  });
});

describe("threads", () => {
  it("have their answers, and drafts are marked", () => {
    const root = comment({});
    const sent = comment({ id: "c2", reply_to: "c1", review_id: "r2", created_at: 3 });
    const mine = comment({ id: "c3", reply_to: "c1", review_id: "d", created_at: 2 });
    const lone = comment({ id: "c4", reply_to: "gone", review_id: "d", created_at: 9 });
    const all = threadsOf(
      [review("r1", "sent", [root]), review("r2", "sent", [sent]), review("r3", "cancelled", [comment({ id: "c9" })])],
      review("d", "draft", [mine, lone, comment({ id: "c5", created_at: 4, review_id: "d" })]),
    );
    expect(all.map((t) => t.root.id)).toEqual(["c1", "c5", "c4"]);
    expect(all[0]?.replies.map((r) => [r.id, all[0]?.drafts.has(r.id)])).toEqual([
      ["c3", true],
      ["c2", false],
    ]);
    expect(all.map((t) => t.review?.id)).toEqual(["r1", undefined, undefined]);
  });
});

describe("what is being written", () => {
  it("is kept until it is added", () => {
    const at = { path: "a", side: "new", line: 1, end_line: 2, revision: "x" } as const;
    const key = begin("w1", at);
    expect(begin("w1", at)).toBe(key);
    expect(writingIn("w1").get()).toHaveLength(1);
    type("w1", key, "why");
    expect(recall("review.writing.w1", Array.isArray)).toHaveLength(1);
    end("w1", key);
    expect(writingIn("w1").get()).toHaveLength(0);
    expect(recall("review.writing.w1", Array.isArray)).toBeUndefined();
  });
});
