import { describe, expect, it } from "vitest";
import { ApiError } from "@/api/problem";
import type { Question, QuestionOption } from "./api";
import { readable } from "./lines";
import { endingOf, keyOf, optionFor, refusalOf, shownOptions, wordsOf } from "./question";

const option = (id: string, role: QuestionOption["role"] = "option"): QuestionOption => ({
  id,
  label: id,
  description: "",
  role,
});
const question = (over: Partial<Question> = {}): Question => ({
  id: "q1",
  session_id: "s1",
  workspace_id: "w1",
  kind: "permission",
  title: "Run a command",
  detail: "",
  options: [option("no", "deny"), option("yes", "allow"), option("always", "allow_session")],
  multi: false,
  free_text: true,
  source: "hook",
  asked_at: 1,
  state: "open",
  answered_by: "",
  answered_by_name: "",
  answered_at: null,
  answer: "",
  via: "",
  ...over,
});

describe("options", () => {
  it("stand from allow to deny in a permission, as the agent gave them in a choice", () => {
    expect(shownOptions(question()).map((o) => o.id)).toEqual(["yes", "always", "no"]);
    const choice = question({ kind: "choice", options: [option("b"), option("a")] });
    expect(shownOptions(choice).map((o) => o.id)).toEqual(["b", "a"]);
  });

  it("are answered by a, d and their number, never by a missing option", () => {
    const q = question();
    expect(optionFor(q, "a")?.id).toBe("yes");
    expect(optionFor(q, "d")?.id).toBe("no");
    expect(optionFor(q, "2")?.id).toBe("always");
    for (const key of ["4", "0", "10", "", "x"]) expect(optionFor(q, key), key).toBeUndefined();
    expect(optionFor(question({ kind: "choice", options: [option("b")] }), "a")).toBeUndefined();
  });

  it("show the key that answers them", () => {
    const q = question();
    expect(shownOptions(q).map((o) => keyOf(q, o))).toEqual(["a", "2", "d"]);
    const many = question({ kind: "choice", options: Array.from({ length: 11 }, (_, i) => option(`o${i}`)) });
    expect(many.options.map((o) => keyOf(many, o)).slice(8)).toEqual(["9", undefined, undefined]);
    for (const o of many.options.slice(0, 9)) expect(optionFor(many, keyOf(many, o)!)).toBe(o);
  });
});

describe("detail", () => {
  it("is a patch only when it looks like one", () => {
    const diff = (text: string) => wordsOf(question({ detail: text })).diff;
    expect(diff("a.go\n+new line\n-old line")).toBe(true);
    expect(diff("@@ -1 +1 @@\n-a\n+b")).toBe(true);
    expect(diff("-a\n+b\n c")).toBe(true);
    expect(diff("- one\n- two")).toBe(false);
    expect(diff("Do these:\n- one\n- two")).toBe(false);
    expect(diff("go test ./...")).toBe(false);
  });

  it("is folded when it is long", () => {
    const long = (text: string) => wordsOf(question({ detail: text })).long;
    expect(long("go test ./...")).toBe(false);
    expect(long("one\ntwo\nthree\nfour")).toBe(true);
    expect(long("x".repeat(401))).toBe(true);
    expect(wordsOf(question({ detail: " \n" })).lines).toEqual([]);
  });
});

describe("the title", () => {
  const words = (title: string, detail: string) => {
    const w = wordsOf(question({ title, detail }));
    return [w.before, w.code, w.after, w.lines.join("|")];
  };
  it("holds the command or file, which is not said again", () => {
    expect(words("Run go vet ./...?", "go vet ./...")).toEqual(["Run ", "go vet ./...", "?", ""]);
    expect(words("Run ls?", "ls\n\nLook around")).toEqual(["Run ", "ls", "?", "Look around"]);
    expect(words("Write a.txt?", "a.txt\n+one\n+two")).toEqual(["Write ", "a.txt", "?", "+one|+two"]);
  });
  it("leaves a script together, and what it does not name below", () => {
    expect(words("Run set -e …?", "set -e\nrm -rf build")).toEqual(["Run set -e …?", "", "", "set -e|rm -rf build"]);
    expect(words("Which queue?", "Two are there")).toEqual(["Which queue?", "", "", "Two are there"]);
    expect(words("Which queue?", "")).toEqual(["Which queue?", "", "", ""]);
  });
});

describe("an answer that was not taken", () => {
  const refused = (status: number, code: string) =>
    refusalOf(new ApiError(status, { code, message: "Ana was faster.", request_id: "r" }));
  it("is over when somebody else answered or the agent went on", () => {
    expect(refused(409, "already_answered")).toEqual({
      over: true,
      title: "Already answered",
      text: "Ana was faster.",
    });
    expect(refused(409, "question_gone").over).toBe(true);
    expect(refused(404, "not_found").over).toBe(true);
  });
  it("can be retried when it did not arrive", () => {
    expect(refused(502, "guest_lost").over).toBe(false);
    expect(refused(0, "network").over).toBe(false);
    expect(refusalOf(new Error("odd")).over).toBe(false);
  });
});

describe("how a question ended", () => {
  it.each([
    [question(), undefined],
    [question({ state: "withdrawn" }), "The agent continued without an answer."],
    [question({ state: "answered", answered_by_name: "Ana", answer: "Allow", via: "inbox" }), "Answered by Ana: Allow"],
    [question({ state: "answered", via: "terminal", answer: "" }), "Answered by somebody in the terminal"],
    [question({ state: "answered", answered_by_name: "Ana", via: "terminal" }), "Answered by Ana in the terminal"],
  ])("%#", (q, want) => expect(endingOf(q)).toBe(want));
});

describe("readable", () => {
  it("leaves out frames, shared indent and runs of empty lines", () => {
    expect(
      readable(["╭──────────╮", "│ Bash     │", "│   go vet │", "╰──────────╯", "", "", "  ❯ 1. Yes   ", "", ""]),
    ).toEqual(["Bash", "  go vet", "", "❯ 1. Yes"]);
  });
  it("keeps the last lines", () => {
    expect(
      readable(
        Array.from({ length: 50 }, (_, i) => `l${i}`),
        3,
      ),
    ).toEqual(["l47", "l48", "l49"]);
    expect(readable(["", "   "])).toEqual([]);
  });
});
