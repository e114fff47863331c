import type { Call } from "./feed";

/** What a call of a tool is shown with. */
export interface Shown {
  /** What it is about, in one line. */
  title: string;
  /** Of a tool that changes a file. */
  path: string;
  diff: string;
  cut: boolean;
  added: number;
  removed: number;
  /** What it was given, and its language. */
  input: string;
  language: string;
  /** What it answered. */
  output: string;
  /** The run that the server recorded, and its code. */
  run: string | undefined;
  /** A picture that was saved. */
  picture: string | undefined;
}

type Args = Record<string, unknown>;

const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** Reads a call of one of Parawork's tools. */
export function shownCall(c: Pick<Call, "tool" | "title" | "arguments" | "content" | "state">): Shown {
  const args = objectIn(c.arguments);
  const output = c.content
    .filter((p) => p.kind === "text")
    .map((p) => p.text ?? "")
    .join("\n");
  const shown: Shown = {
    title: c.title,
    path: "",
    diff: "",
    cut: false,
    added: 0,
    removed: 0,
    input: "",
    language: "",
    output,
    run: undefined,
    picture: c.tool === "browser_screenshot" ? /\bart_[0-9a-z]{20,40}\b/.exec(output)?.[0] : undefined,
  };
  switch (c.tool) {
    case "file_write":
    case "file_edit":
    case "file_multi_edit":
      return {
        ...shown,
        ...changeOf(c.tool, args, c.state === "done" ? output : ""),
        path: text(args.path),
        output: c.state === "done" ? "" : output,
      };
    case "run_command":
      return { ...shown, input: text(args.command) || c.arguments, language: "bash" };
    case "run_code":
      return {
        ...shown,
        input: text(args.code),
        language: text(args.language) || "python",
        run: output.match(/\bcode_[0-9a-z]{20,40}\b/g)?.at(-1),
      };
    default:
      return { ...shown, input: Object.keys(args).length > 0 ? JSON.stringify(args, null, 2) : "", language: "json" };
  }
}

/** The change of a file: as the tool answered, else as the model asked for it. */
function changeOf(tool: string, args: Args, answer: string): Pick<Shown, "diff" | "cut" | "added" | "removed"> {
  const counted = /: (\d+) lines added, (\d+) removed\./.exec(answer);
  const at = answer.search(/^@@ /m);
  const left = "\n[The rest of the diff is left out.]";
  const diff =
    at >= 0 ? answer.slice(at).replace(left, "") : tool === "file_write" ? signed("+", args.content) : wanted(args);
  const lines = diff.split("\n");
  return {
    diff,
    cut: answer.includes(left),
    added: counted ? Number(counted[1]) : lines.filter((l) => l.startsWith("+")).length,
    removed: counted ? Number(counted[2]) : lines.filter((l) => l.startsWith("-")).length,
  };
}

/** The texts that are to be replaced, and those in their place. */
function wanted(args: Args): string {
  const edits = Array.isArray(args.edits) ? (args.edits as Args[]) : [args];
  return edits.flatMap((e) => [signed("-", e?.old), signed("+", e?.new)].filter((s) => s !== "")).join("\n");
}

const signed = (sign: string, v: unknown): string =>
  text(v) === ""
    ? ""
    : text(v)
        .replace(/\n$/, "")
        .split("\n")
        .map((l) => sign + l)
        .join("\n");

function objectIn(json: string): Args {
  try {
    const v: unknown = JSON.parse(json);
    return typeof v === "object" && v !== null ? (v as Args) : {};
  } catch {
    return {}; // what the model wrote is no JSON
  }
}

/** What a call is about whose arguments are still being written. */
export function titleOf(raw: string): string {
  const found =
    /"(?:command|path|pattern|url|title|query|name|task|ref)"\s*:\s*"((?:[^"\\]|\\.)*)/.exec(raw)?.[1] ?? "";
  return found
    .replace(/\\n[\s\S]*/, "")
    .replace(/\\(["\\/])/g, "$1")
    .slice(0, 200);
}

/** The name of a tool in words: "run command". */
export const toolWords = (tool: string): string => tool.replaceAll("_", " ");
