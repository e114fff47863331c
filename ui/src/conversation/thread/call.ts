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
export function shownCall(c: Pick<Call, "tool" | "title" | "arguments" | "content" | "state" | "details">): Shown {
  const args = objectIn(c.arguments);
  const d = c.details;
  const output = c.content
    .filter((p) => p.kind === "text")
    .map((p) => p.text ?? "")
    .join("\n");
  const shown: Shown = {
    title: c.title,
    path: d.path ?? "",
    diff: d.diff ?? "",
    cut: d.diff_truncated ?? false,
    added: d.added ?? 0,
    removed: d.removed ?? 0,
    input: "",
    language: "",
    output,
    run: d.run,
    picture: /^(?:browser|desktop)_screenshot$/.test(c.tool) ? d.artifact : undefined,
  };
  switch (c.tool) {
    case "file_write":
    case "file_edit":
    case "file_multi_edit": {
      // Before it is done, the change is what the model asks for.
      const diff = shown.diff || (c.tool === "file_write" ? signed("+", args.content) : wanted(args));
      const lines = shown.diff ? [] : diff.split("\n");
      return {
        ...shown,
        path: shown.path || text(args.path),
        diff,
        added: shown.added || lines.filter((l) => l.startsWith("+")).length,
        removed: shown.removed || lines.filter((l) => l.startsWith("-")).length,
        output: c.state === "done" ? "" : output,
      };
    }
    case "run_command":
      return { ...shown, input: text(args.command) || c.arguments, language: "bash" };
    case "run_code":
      return { ...shown, input: text(args.code), language: text(args.language) || "python" };
    default:
      return { ...shown, input: Object.keys(args).length > 0 ? JSON.stringify(args, null, 2) : "", language: "json" };
  }
}

/** Subagents that one call is shown with. */
const MOST = 8;

/** The subagents that a call started, or is about. */
export function subagentsOf(c: Pick<Call, "tool" | "arguments" | "content">): string[] {
  if (!c.tool.startsWith("subagent_") || c.tool === "subagent_list") return [];
  const all = [c.arguments, ...c.content.map((p) => p.text ?? "")].join("\n");
  return [...new Set(all.match(/\bsub_[0-9a-z]{8,40}\b/g))].slice(0, MOST);
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
