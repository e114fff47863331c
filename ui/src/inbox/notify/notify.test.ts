import { describe, expect, it } from "vitest";
import type { InboxItem } from "@/inbox/api";
import { snoozed, snoozeUntil, waiting } from "@/inbox/inbox";
import { BETWEEN_SOUNDS_MS, News, PER_WORKSPACE_MS } from "./decide";
import { checked, DEFAULT, type Rules } from "./rules";

let n = 0;
const item = (over: Partial<InboxItem> = {}): InboxItem => ({
  id: `i${++n}`,
  kind: "question",
  workspace_id: `w${n}`,
  workspace_key: `PW-${n}`,
  workspace_name: `Work ${n}`,
  project_name: "p",
  session_id: "s",
  agent: "claude-code",
  agent_name: "Claude Code",
  reason: "",
  since: n,
  question: null,
  snoozed_until: null,
  ...over,
});
const loud: Rules = {
  volume: 1,
  kinds: {
    question: { show: "system", sound: true },
    failed: { show: "system", sound: true },
    stuck: { show: "off", sound: false },
    limited: { show: "off", sound: false },
    budget: { show: "toast", sound: false },
    review: { show: "toast", sound: false },
    finished: { show: "toast", sound: false },
  },
};
const nobody = () => false;

describe("news", () => {
  it("is what came after the first look, once", () => {
    const news = new News();
    const a = item();
    const b = item();
    expect(news.take([a], 0)).toEqual([]);
    expect(news.take([a, b], 0)).toEqual([b]);
    expect(news.take([a, b], 0)).toEqual([]);
    expect(news.take([b], 0)).toEqual([]);
    expect(news.take([a, b], 0)).toEqual([a]);
  });

  it("is the same item again when it happened again, or when its sleep ended", () => {
    const news = new News();
    const a = item({ kind: "failed" });
    news.take([a], 0);
    expect(news.take([{ ...a, since: a.since + 1 }], 0)).toHaveLength(1);
    const sleeping = item({ snoozed_until: 100 });
    expect(news.take([sleeping], 50)).toEqual([]);
    expect(news.take([sleeping], 150)).toEqual([sleeping]);
  });
});

describe("notes", () => {
  it("follow the rules and leave out what somebody looks at", () => {
    const news = new News();
    const q = item();
    const stuck = item({ kind: "stuck" });
    const done = item({ kind: "finished" });
    const seen = item();
    const notes = news.notes([q, stuck, seen, done], loud, (w) => w === seen.workspace_id, 0);
    expect(notes.map((x) => [x.title, x.show, x.sound])).toEqual([
      ["Claude Code needs you", "system", "question"],
      ["Claude Code has finished", "toast", undefined],
    ]);
    expect(notes[0]!.tag).toBe(q.workspace_id);
  });

  it("are few: one workspace at its pace, sounds apart, many as one; a question is never held back", () => {
    const news = new News();
    const failed = item({ kind: "failed", workspace_id: "w" });
    expect(news.notes([failed], loud, nobody, 0)[0]?.sound).toBe("failed");
    expect(news.notes([failed], loud, nobody, PER_WORKSPACE_MS - 1)).toEqual([]);
    expect(news.notes([failed], loud, nobody, PER_WORKSPACE_MS)).toHaveLength(1);
    const asks = item({ workspace_id: "w" });
    const soon = news.notes([asks], loud, nobody, PER_WORKSPACE_MS + 1);
    expect(soon).toHaveLength(1);
    expect(soon[0]!.sound).toBeUndefined();
    expect(news.notes([item()], loud, nobody, PER_WORKSPACE_MS + BETWEEN_SOUNDS_MS)[0]!.sound).toBe("question");
    const many = news.notes([item(), item(), item(), item()], loud, nobody, 1e6);
    expect(many).toHaveLength(1);
    expect(many[0]).toMatchObject({ title: "4 items need you", tag: "inbox", show: "system", item: undefined });
  });
});

describe("rules", () => {
  it("take what is known of what was stored", () => {
    expect(checked(null)).toEqual(DEFAULT);
    expect(checked({ volume: 7, kinds: { failed: { show: "loud", sound: "yes" }, stuck: { show: "off" } } })).toEqual({
      ...DEFAULT,
      kinds: { ...DEFAULT.kinds, stuck: { show: "off", sound: false } },
    });
    expect(checked(loud)).toEqual(loud);
  });
});

describe("the inbox", () => {
  it("shows who waits longest first, questions before all, the newest of what has finished", () => {
    const f1 = item({ kind: "finished", since: 1 });
    const f2 = item({ kind: "finished", since: 2 });
    const q2 = item({ since: 20 });
    const q1 = item({ since: 10 });
    const bad = item({ kind: "failed", since: 0 });
    const later = item({ since: 0, snoozed_until: 500 });
    expect(waiting([f1, f2, q2, bad, later, q1], 100)).toEqual([q1, q2, bad, f2, f1]);
    expect(snoozed([f1, later], 100)).toEqual([later]);
    expect(waiting([later], 500)).toEqual([later]);
  });

  it("snoozes for an hour or until nine tomorrow", () => {
    const now = new Date(2026, 10, 21, 23, 50).getTime();
    expect(snoozeUntil("hour", now)).toBe(now + 3_600_000);
    expect(new Date(snoozeUntil("tomorrow", now))).toEqual(new Date(2026, 10, 22, 9));
  });
});
