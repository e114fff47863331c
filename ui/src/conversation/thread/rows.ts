import { type Shown, shownCall } from "./call";
import { Chunks } from "./chunks";
import type { Call, Conversation, Message } from "./feed";
import type { WritingPart } from "./writing";

/** A row of the conversation. Its ID stays the same from the first letter of it on. */
export type Row = { id: string; message: Message } & (
  | { kind: "prompt" | "summary" | "clear" | "note" }
  | { kind: "text" | "reasoning"; text: string; live: boolean }
  | { kind: "picture"; mime: string; size: number }
  | { kind: "writing"; part: WritingPart }
  | { kind: "call"; call: Call; shown: Shown }
  | { kind: "discarded"; text: string }
  /** Stands before the rows of messages that follow each other and were undone; these are shown while it is unfolded. */
  | { kind: "undone"; messages: number; text: string }
  /** What an answer used, and at one of several what the turn has cost with it. */
  | { kind: "spent"; turn: { nano: number; estimated: boolean } | undefined }
);

/** Diffs up to this many lines are shown unfolded. */
const SMALL_DIFF = 16;

/** Whether a row is unfolded by default. */
export function opensByItself(row: Row): boolean {
  if (row.kind !== "call") return false;
  return row.call.tool === "run_code" || (row.shown.diff !== "" && row.shown.diff.split("\n").length <= SMALL_DIFF);
}

/** Whether there is anything to unfold. */
export function unfolds(row: Row): boolean {
  switch (row.kind) {
    case "call":
      return row.shown.diff !== "" || row.shown.input !== "" || row.shown.output !== "";
    case "reasoning":
    case "summary":
    case "note":
    case "discarded":
    case "undone":
      return true;
    default:
      return false;
  }
}

const heights = new WeakMap<Row, number>();

/** About how high a row is, in pixels, until it is measured. The nearer it is, the less the list moves while it is scrolled. */
export function heightOf(row: Row): number {
  let height = heights.get(row);
  if (height === undefined) {
    height = guessed(row);
    heights.set(row, height);
  }
  return height;
}

function guessed(row: Row): number {
  switch (row.kind) {
    case "text":
      return 8 + heightOfText(row.text);
    case "prompt":
      return 60 + Math.min(heightOfText(textOf(row.message)), 280);
    case "call":
      if (row.shown.run) return 200;
      return opensByItself(row) ? 60 + row.shown.diff.split("\n").length * 18 : 36;
    default:
      return 32;
  }
}

/** Of about 100 characters on a line of 20 pixels. */
function heightOfText(text: string): number {
  let lines = 0;
  for (const line of text.split("\n")) lines += line === "" ? 0.3 : Math.ceil(line.length / 100);
  return Math.max(1, lines) * 20;
}

/** Characters of a text from which on it becomes several rows, so that of a long one, too, only what is seen is in the page. */
const LONG_TEXT = 1500;

const NONE: readonly Call[] = [];
const known = new WeakMap<Message, { calls: readonly Call[]; rows: readonly Row[] }>();

type Shows = Pick<Conversation, "messages" | "calls" | "writing">;

/**
 * The rows of messages that are complete, and of what is being written. What has not changed keeps its rows. Messages that were undone are
 * one row, and those of its ID in `unfolded` have theirs below it.
 */
export function rowsOf({ messages, calls, writing }: Shows, unfolded: ReadonlySet<string> = new Set()): Row[] {
  const all: Row[] = [];
  const costs = costsOf(messages);
  let undone: Message[] = [];
  let rows = all;
  const fold = () => {
    const last = undone.at(-1);
    if (!last) return;
    const id = `${last.id}/undone`;
    const text = textOf(undone.find((m) => m.role === "user"));
    all.push({ id, message: last, kind: "undone", messages: undone.length, text });
    if (unfolded.has(id)) for (const r of rows) all.push(r);
    undone = [];
    rows = all;
  };
  for (const m of messages) {
    if (m.state === "undone") {
      if (undone.length === 0) rows = [];
      undone.push(m);
    } else if (m.state !== "discarded" || m.turn_id !== undone.at(-1)?.turn_id) fold();
    if (m.state === "streaming") {
      if (m.id === writing.id)
        for (const [i, p] of writing.parts.entries()) rows.push(...written(m, p, i, i === writing.parts.length - 1));
      continue;
    }
    const of = calls.get(m.id) ?? NONE;
    let had = known.get(m);
    if (had?.calls !== of) {
      had = { calls: of, rows: stored(m, of) };
      known.set(m, had);
    }
    rows.push(...had.rows);
    const cost = costs.get(m.id);
    if (cost || (m.role === "assistant" && m.state === "complete"))
      rows.push({ id: `${m.id}/spent`, message: m, kind: "spent", turn: cost?.turn });
  }
  fold();
  return all;
}

/** What a person wrote in a message. */
export const textOf = (m: Message | undefined): string =>
  (m?.parts ?? [])
    .filter((p) => p.kind === "text")
    .map((p) => p.text ?? "")
    .join("\n");

/** The answers whose cost is known. */
function costsOf(messages: readonly Message[]) {
  const out = new Map<string, { turn: { nano: number; estimated: boolean } | undefined }>();
  let sum = { turn: "", nano: 0, estimated: false, answers: 0 };
  for (const m of messages) {
    if (m.turn_id !== sum.turn) sum = { turn: m.turn_id, nano: 0, estimated: false, answers: 0 };
    const nano = m.usage?.cost_nano_usd;
    if (nano === undefined || m.role === "user") continue;
    sum = {
      turn: m.turn_id,
      nano: sum.nano + nano,
      estimated: sum.estimated || (m.usage.estimated ?? false),
      answers: sum.answers + 1,
    };
    out.set(m.id, { turn: sum.answers > 1 ? { nano: sum.nano, estimated: sum.estimated } : undefined });
  }
  return out;
}

function written(message: Message, p: WritingPart, i: number, last: boolean): Row[] {
  const id = `${message.id}/${i}`;
  if (p.kind === "tool_call") return [{ id, message, kind: "writing", part: p }];
  if (p.text.trim() === "") return [];
  if (p.kind === "reasoning") return [{ id, message, kind: "reasoning", text: p.text, live: last }];
  const cut = growing.get(message) ?? [];
  growing.set(message, cut);
  cut[i] ??= new Chunks(LONG_TEXT);
  return texts(id, message, cut[i].of(p.text), last);
}

const growing = new WeakMap<Message, Chunks[]>();

const texts = (id: string, message: Message, chunks: readonly string[], live: boolean): Row[] =>
  chunks.map((text, n) => ({ id: `${id}/${n}`, message, kind: "text", text, live: live && n === chunks.length - 1 }));

function stored(message: Message, calls: readonly Call[]): Row[] {
  const id = message.id;
  if (message.state === "discarded") {
    const text = message.parts.map((p) => (p.kind === "text" ? (p.text ?? "") : "")).join("\n");
    return [{ id, message, kind: "discarded", text }];
  }
  if (message.role === "user") return [{ id, message, kind: "prompt" }];
  if (message.role === "summary" || message.role === "clear" || message.role === "note")
    return [{ id, message, kind: message.role }];
  const rows: Row[] = [];
  message.parts.forEach((p, i) => {
    const at = { id: `${id}/${i}`, message };
    switch (p.kind) {
      case "text":
        rows.push(...texts(at.id, message, new Chunks(LONG_TEXT).of(p.text ?? ""), false));
        break;
      case "reasoning":
        if (p.text?.trim()) rows.push({ ...at, kind: p.kind, text: p.text, live: false });
        break;
      case "image":
        rows.push({ ...at, kind: "picture", mime: p.mime ?? "", size: p.size ?? 0 });
        break;
      case "tool_call": {
        const call =
          calls.find((c) => c.call_id === p.call_id && c.ordinal === i) ?? calls.find((c) => c.call_id === p.call_id);
        if (call) rows.push({ ...at, kind: "call", call, shown: shownCall(call) });
      }
    }
  });
  return rows;
}
