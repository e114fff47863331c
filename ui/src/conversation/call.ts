import type { Item } from "./feed";

/** Tools of Parawork by their own names; no other agent's are called so. */
const OWN =
  /^(?:run_code|run_command|web_fetch|(?:command|file|browser|desktop|code|task|artifact|checkpoint|edit|lsp|subagent)_\w+)$/;

/** An agent's call of one of Parawork's own tools. */
export interface Call {
  tool: string;
  /** Of run_code. */
  code: string;
  language: string;
  /** The run that the server recorded. */
  run: string | undefined;
  /** A picture that was saved. */
  picture: string | undefined;
}

/**
 * Reads a call of Parawork's tools from the names that Claude Code (mcp__parawork__TOOL), Codex (parawork.TOOL) and
 * Parawork's own agent (TOOL) give them.
 */
export function callOf(item: Pick<Item, "tool" | "input" | "output">): Call | undefined {
  const tool = /^(?:mcp__parawork__|parawork\.)(\w+)$/.exec(item.tool)?.[1] ?? OWN.exec(item.tool)?.[0];
  if (!tool) return undefined;
  let args: Record<string, unknown> = {};
  try {
    args = JSON.parse(item.input) as Record<string, unknown>;
  } catch {} // a long one is cut
  const running = tool === "run_code" && typeof args.code === "string";
  return {
    tool,
    code: running ? (args.code as string) : "",
    language: running && typeof args.language === "string" ? args.language : "python",
    run: tool === "run_code" ? item.output.match(/\bcode_[0-9a-z]{20,40}\b/g)?.at(-1) : undefined,
    picture: /^(?:browser|desktop)_screenshot$/.test(tool)
      ? /\bart_[0-9a-z]{20,40}\b/.exec(item.output)?.[0]
      : undefined,
  };
}

/** The name of a tool in words: "browser click". */
export const toolWords = (tool: string): string => tool.replaceAll("_", " ");
