import { expect, test } from "vitest";
import { subagentsOf } from "./call";
import { type Call, EMPTY, type Message, merged, type View } from "./feed";
import { rowsOf } from "./rows";
import { statusOf } from "./status";
import { written } from "./writing";

const message = (id: string, seq: number, more: Partial<Message> = {}): Message =>
  ({ id, seq, role: "assistant", state: "complete", parts: [], version: seq, turn_id: "t", ...more }) as Message;
const call = (more: Partial<Call>): Call =>
  ({
    id: "c",
    message_id: "a",
    ordinal: 1,
    call_id: "x",
    tool: "file_edit",
    title: "a.txt",
    arguments: '{"path":"a.txt","old":"one","new":"two\\nthree"}',
    content: [],
    details: {},
    state: "asked",
    version: 1,
    ...more,
  }) as Call;
const view = (version: number, more: Partial<View>): View =>
  ({
    thread: { id: "t", version, state: "working", reason: "", code: "" },
    turn: { id: "u", state: "running", steps: 1, started_at: 1, reason: "", code: "" },
    messages: [],
    calls: [],
    more: false,
    ...more,
  }) as unknown as View;

const prompt = message("p", 1, { role: "user", parts: [{ kind: "text", text: "Change it" }] });
const streaming = message("a", 2, { state: "streaming" });
const parts: Message["parts"] = [
  { kind: "text", text: "I change it." },
  { kind: "tool_call", call_id: "x", name: "file_edit" },
];

test("a message keeps the IDs of its rows from its first letter on", () => {
  let c = merged(EMPTY, view(2, { messages: [streaming, prompt] }));
  const write = (part: number, kind: string, text: string, tool = "") => {
    c = { ...c, writing: written(c.writing, { message_id: "a", part, kind, offset: 0, text, tool }) };
  };
  write(0, "text", "I ch");
  expect(rowsOf(c).map((r) => [r.id, r.kind])).toEqual([
    ["p", "prompt"],
    ["a/0/0", "text"],
  ]);
  expect(statusOf(c).words).toBe("Step 2: writes");
  write(1, "tool_call", '{"path":"a.txt","ol', "file_edit");
  expect(statusOf(c).words).toBe("Step 2: writes a call of file edit a.txt");
  expect(rowsOf(c).map((r) => r.kind)).toEqual(["prompt", "text", "writing"]);

  c = merged(c, view(3, { messages: [message("a", 2, { parts, version: 3 })], calls: [call({})] }));
  const rows = rowsOf(c);
  expect(rows.map((r) => [r.id, r.kind])).toEqual([
    ["p", "prompt"],
    ["a/0/0", "text"],
    ["a/1", "call"],
    ["a/spent", "spent"],
  ]);
  const card = rows[2]!;
  expect(card.kind === "call" && card.shown).toMatchObject({ diff: "-one\n+two\n+three", added: 2, removed: 1 });
  expect(rowsOf(c)[1]).toBe(rows[1]); // what has not changed is not drawn again

  c = merged(
    c,
    view(4, {
      calls: [call({ state: "done", version: 2, details: { diff: "@@\n-one\n+two\n", added: 1, removed: 1 } })],
    }),
  );
  const done = rowsOf(c)[2]!;
  expect(done.kind === "call" && [done.call.state, done.shown.diff, done.shown.added]).toEqual([
    "done",
    "@@\n-one\n+two\n",
    1,
  ]);
});

test("rows of an older view take nothing back", () => {
  const c = merged(
    EMPTY,
    view(5, { messages: [prompt, message("a", 2, { version: 5 })], calls: [call({ state: "done", version: 5 })] }),
  );
  const late = merged(c, view(4, { messages: [streaming], calls: [call({ state: "running", version: 4 })] }));
  expect(late.messages.map((m) => m.state)).toEqual(["complete", "complete"]);
  expect(late.calls.get("a")?.[0]?.state).toBe("done");
  expect(late.thread?.version).toBe(5);
});

test("an attempt that was given up is folded, and a failure says how to go on", () => {
  const gone = message("a", 2, {
    state: "discarded",
    note: "the connection ended",
    parts: [{ kind: "text", text: "I ch" }],
  });
  const c = merged(EMPTY, view(6, { messages: [prompt, gone] }));
  expect(rowsOf(c).map((r) => r.kind)).toEqual(["prompt", "discarded"]);
  const failed = (code: string) => statusOf({ ...c, thread: { ...c.thread!, state: "failed", code, reason: "why" } });
  expect(failed("model_overloaded")).toMatchObject({ kind: "failed", words: "why", again: "Retry" });
  expect(failed("turn_steps").again).toBe("Go on");
  expect(failed("context_too_long").again).toBe("");
});

test("a long text is several rows, the same ones while it is written and afterwards", () => {
  const text = Array.from({ length: 200 }, (_, i) => `Paragraph ${i} of a long text.`).join("\n\n");
  const c = merged(EMPTY, view(2, { messages: [streaming] }));
  let ids: string[] = [];
  let at = "";
  for (let n = 0; n < text.length; n += 97) {
    at = text.slice(0, n + 97);
    const now = rowsOf({ ...c, writing: { id: "a", parts: [{ kind: "text", text: at, tool: "" }] } });
    expect(now.slice(0, ids.length).map((r) => r.id)).toEqual(ids);
    ids = now.map((r) => r.id);
  }
  const done = rowsOf(
    merged(c, view(3, { messages: [message("a", 2, { parts: [{ kind: "text", text }], version: 3 })] })),
  );
  expect(done.map((r) => r.id)).toEqual([...ids, "a/spent"]);
  expect(done.length).toBeGreaterThan(3);
  expect(done.map((r) => (r.kind === "text" ? r.text : "")).join("")).toBe(text);
});

test("an answer is followed by what it cost, and from the second on by what its turn has cost", () => {
  const usage = (nano?: number, estimated = false) =>
    ({ input: 1, output: 1, ...(nano !== undefined && { cost_nano_usd: nano }), estimated }) as Message["usage"];
  const messages = [
    message("a", 1, { usage: usage(10) }),
    message("unknown", 2, { usage: usage() }),
    message("b", 3, { usage: usage(20, true) }),
    message("c", 4, { turn_id: "next", usage: usage(5) }),
  ];
  const rows = rowsOf({ messages, calls: new Map(), writing: { id: "", parts: [] } });
  expect(rows.map((r) => [r.id, r.kind === "spent" && r.turn])).toEqual([
    ["a/spent", undefined],
    ["unknown/spent", undefined],
    ["b/spent", { nano: 30, estimated: true }],
    ["c/spent", undefined],
  ]);
});

test("a call names the subagents that it is about", () => {
  const one = "sub_0123456789abcdefghij";
  const text = `Subagent ${one} (tests) is working.`;
  expect(subagentsOf(call({ tool: "subagent_spawn", content: [{ kind: "text", text }] }))).toEqual([one]);
  expect(subagentsOf(call({ tool: "subagent_merge", arguments: `{"id":"${one}"}` }))).toEqual([one]);
  expect(subagentsOf(call({ tool: "run_command", content: [{ kind: "text", text }] }))).toEqual([]);
});

test("what was undone is one line, with its rows below it while it is unfolded", () => {
  const said = (id: string, seq: number, more: Partial<Message> = {}) =>
    message(id, seq, { parts: [{ kind: "text", text: `${id} said` }], ...more });
  const messages = [
    said("p", 1, { role: "user" }),
    said("q", 2, { role: "user", state: "undone", turn_id: "u" }),
    said("cut", 3, { state: "discarded", turn_id: "u" }),
    said("a", 4, { state: "undone", turn_id: "u" }),
    said("r", 5, { role: "user", turn_id: "v" }),
    said("b", 6, { state: "undone", turn_id: "w" }),
  ];
  const c = { messages, calls: new Map(), writing: { id: "", parts: [] } };
  const folded = rowsOf(c);
  expect(folded.map((r) => r.id)).toEqual(["p", "a/undone", "r", "b/undone"]);
  expect(folded[1]).toMatchObject({ kind: "undone", messages: 2, text: "q said" });
  expect(rowsOf(c, new Set(["a/undone"])).map((r) => r.id)).toEqual([
    "p",
    "a/undone",
    "q",
    "cut",
    "a/0/0",
    "r",
    "b/undone",
  ]);
});
