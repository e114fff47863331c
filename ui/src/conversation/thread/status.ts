import { t } from "@lingui/core/macro";
import { titleOf, toolWords } from "./call";
import type { Conversation, Turn } from "./feed";

export interface Status {
  kind: "idle" | "working" | "waiting" | "failed" | "stopped";
  words: string;
  /** Of a failure: its stable code. */
  code: string;
  /** What a button says that sends the agent on; "" = there is none. */
  again: "" | "Retry" | "Go on";
  /** When the turn began. */
  since: number;
}

/** What the agent does, in words. */
export function statusOf({ thread, turn, calls, messages, writing }: Conversation): Status {
  const status = { kind: "idle", words: "", code: "", again: "", since: turn?.started_at ?? 0 } as const;
  if (!thread) return status;
  switch (thread.state) {
    case "working":
      return { ...status, kind: "working", words: doing() };
    case "waiting":
      return { ...status, kind: "waiting", words: t`Waits for your answer` };
    case "failed":
      return { ...status, kind: "failed", words: thread.reason, code: thread.code, again: againAfter(thread.code) };
    default:
      return turn?.state === "interrupted"
        ? { ...status, kind: "stopped", words: turn.reason ? t`Interrupted: ${turn.reason}` : t`Interrupted` }
        : status;
  }

  function doing(): string {
    if (turn?.reason === "compact") return t`Summarizes the conversation`;
    const step = t`Step ${(turn?.steps ?? 0) + 1}`;
    const last = messages.at(-1);
    if (last?.state === "streaming") {
      const part = last.id === writing.id ? writing.parts.at(-1) : undefined;
      if (part?.kind === "reasoning") return t`${step}: thinks`;
      if (part?.kind === "tool_call") return t`${step}: writes a call of ${toolWords(part.tool)} ${titleOf(part.text)}`;
      return part ? t`${step}: writes` : t`${step}: asks the model`;
    }
    const open = (last && calls.get(last.id)?.filter((c) => c.state === "running")) || [];
    if (open.length > 1) return t`Step ${turn?.steps ?? 1}: ${open.length} tools run`;
    if (open[0]) return t`Step ${turn?.steps ?? 1}: runs ${toolWords(open[0].tool)} ${open[0].title}`;
    return t`${step}: asks the model`;
  }
}

/** Trouble of the provider passes: then the same is tried again. A limit was reached: then the work goes on. */
function againAfter(code: Turn["code"]): Status["again"] {
  // Not for translation: codes, of which the line has the words.
  if (/^turn_|^model_output_cut$/.test(code)) return "Go on";
  // Not for translation: the same.
  return /^(context_too_long|model_context_too_long|no_summary|session_ended)$/.test(code) ? "" : "Retry";
}
