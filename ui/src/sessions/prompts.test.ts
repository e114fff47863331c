import { describe, expect, it } from "vitest";
import { movedTo, openPrompts, type Prompt, queueWords, reordered, toldTo } from "./prompts";

const p = (id: string, state: Prompt["state"], more: Partial<Prompt> = {}): Prompt => ({
  id,
  session_id: "s",
  text: id,
  state,
  reason: "",
  held: false,
  waits: "",
  urgent: false,
  created_by: "u",
  created_by_name: "Ada",
  created_at: 1,
  sent_at: null,
  ...more,
});

describe("the queue of prompts", () => {
  const all = [
    p("old", "sent"),
    p("gone", "cancelled"),
    p("now", "sending"),
    p("a", "queued"),
    p("b", "queued"),
    p("c", "queued"),
  ];

  it("shows what is open", () => {
    expect(openPrompts(all).map((x) => x.id)).toEqual(["now", "a", "b", "c"]);
    expect(openPrompts(undefined)).toEqual([]);
  });

  it("says how it stands", () => {
    expect(queueWords([])).toBeUndefined();
    expect(queueWords([p("x", "sending")])).toEqual({ text: "Sending", needs: false });
    expect(queueWords(openPrompts(all))).toEqual({ text: "3 queued", needs: false });
    expect(queueWords([p("a", "queued", { held: true }), p("b", "queued")])).toEqual({ text: "2 held", needs: true });
    expect(queueWords([p("f", "failed"), p("a", "queued")])).toEqual({ text: "1 failed", needs: true });
  });

  it("moves within its ends", () => {
    expect(movedTo(all, "a", -1)).toBeUndefined();
    expect(movedTo(all, "a", 1)).toBe(1);
    expect(movedTo(all, "a", 9)).toBe(2);
    expect(movedTo(all, "now", 1)).toBeUndefined();
    expect(reordered(all, "c", 0).map((x) => x.id)).toEqual(["old", "gone", "now", "c", "a", "b"]);
    expect(reordered(all, "a", 2).map((x) => x.id)).toEqual(["old", "gone", "now", "b", "c", "a"]);
    expect(reordered(all, "none", 0)).toEqual(all);
  });

  it("gives another agent the first one's prompts", () => {
    expect(toldTo({ prompt: "first" }, all)).toBe("first\n\nold");
    expect(toldTo({ prompt: "" }, undefined)).toBe("");
  });
});
