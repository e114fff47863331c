import { t } from "@lingui/core/macro";
import { ApiError, tell } from "@/api/problem";
import type { Question, QuestionOption } from "./api";

/** A new question accepts no answer for this long: a key or click was meant for the previous one. */
export const SETTLE_MS = 450;

const RANK = { allow: 0, allow_session: 1, option: 2, deny: 3 } as const;

/** The options as they are shown: a permission from allow to deny, a choice in the agent's order. */
export function shownOptions(q: Question): QuestionOption[] {
  if (q.kind !== "permission") return q.options;
  return q.options
    .map((o, i) => [o, i] as const)
    .sort(([a, i], [b, j]) => RANK[a.role] - RANK[b.role] || i - j)
    .map(([o]) => o);
}

/** The option a key answers with: a allows, d denies, a digit takes the option at that place. */
export function optionFor(q: Question, key: string): QuestionOption | undefined {
  const options = shownOptions(q);
  if (key === "a") return options.find((o) => o.role === "allow");
  if (key === "d") return options.find((o) => o.role === "deny");
  return /^[1-9]$/.test(key) ? options[Number(key) - 1] : undefined;
}

/** The key written on an option. */
export function keyOf(q: Question, o: QuestionOption): string | undefined {
  if (optionFor(q, "a")?.id === o.id) return "a";
  if (optionFor(q, "d")?.id === o.id) return "d";
  const at = shownOptions(q).indexOf(o);
  return at >= 0 && at < 9 ? String(at + 1) : undefined;
}

/** How a question is drawn: its title, a command or file in it, and what it is about below. */
export interface Words {
  before: string;
  /** What the title names, in fixed width. */
  code: string;
  after: string;
  lines: string[];
  diff: boolean;
  long: boolean;
}

/** Lines of a detail shown before it is folded. */
export const SHORT = 3;

/** Puts the command or file a title names in fixed width, and does not say it twice below. Nothing is left out. */
export function wordsOf(q: Question): Words {
  const text = q.detail.trimEnd();
  let lines = text ? text.split("\n") : [];
  const diff = isDiff(lines);
  const [first = "", next = ""] = lines;
  const at = first.trim() ? q.title.indexOf(first) : -1;
  let title = { before: q.title, code: "", after: "" };
  // One command, a command with words below it, or the file of a patch; the lines of a script stay together.
  if (at >= 0 && first.length <= 160 && (lines.length === 1 || next === "" || diff)) {
    title = { before: q.title.slice(0, at), code: first, after: q.title.slice(at + first.length) };
    lines = lines.slice(1);
    while (lines[0] === "") lines.shift();
  }
  return { ...title, lines, diff, long: lines.length > SHORT || lines.join("\n").length > 400 };
}

/** A patch says so, or all its lines come and go below the name of a file. A list of dashes is no patch. */
function isDiff(lines: readonly string[]): boolean {
  if (lines.some((l) => /^(@@ |diff --git |\*\*\* )/.test(l))) return true;
  const signed = (l: string) => l === "" || /^[+\- ]/.test(l);
  const [first = "", ...rest] = lines;
  if (!signed(first)) return !/\s/.test(first) && rest.some((l) => /^[+-]/.test(l)) && rest.every(signed);
  return lines.every(signed) && lines.some((l) => l.startsWith("+"));
}

/** The message for a refused answer. */
export interface Refusal {
  /** The question is over: nothing is left to answer. */
  over: boolean;
  title: string;
  text: string;
}

export function refusalOf(error: unknown): Refusal {
  if (error instanceof ApiError && error.code === "already_answered") {
    return { over: true, title: t`Already answered`, text: error.message };
  }
  if (error instanceof ApiError && (error.code === "question_gone" || error.status === 404 || error.status === 410)) {
    return { over: true, title: t`The question is no longer open`, text: error.message };
  }
  return { over: false, title: t`The answer was not delivered`, text: tell(error).message };
}

/** How a question ended that this user did not answer; undefined while it is open. */
export function endingOf(q: Question): string | undefined {
  if (q.state === "open") return undefined;
  if (q.state === "withdrawn") return t`The agent continued without an answer.`;
  const who = q.answered_by_name || (q.via === "terminal" ? t`somebody in the terminal` : "somebody");
  const where = q.answered_by_name && q.via === "terminal" ? t` in the terminal` : "";
  return t`Answered by ${who}${where}${q.answer ? `: ${q.answer}` : ""}`;
}
