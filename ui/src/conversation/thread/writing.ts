import type { Schemas } from "@/api/client";

export interface Delta {
  message_id: string;
  part: number;
  kind: string;
  offset: number;
  text: string;
  tool: string;
}

export interface WritingPart {
  kind: string;
  text: string;
  tool: string;
}

/** The message that the model of Parawork's own agent writes now. */
export interface Writing {
  id: string;
  parts: readonly WritingPart[];
}

export const NOTHING: Writing = { id: "", parts: [] };

/** What is written when a view of the thread has come: a message that is complete or was given up is shown as the view has it. */
export function viewed(now: Writing, view: Schemas["ThreadView"]): Writing {
  const at = view.messages.find((m) => m.id === now.id);
  return at && at.state !== "streaming" ? NOTHING : now;
}

/** What is written with one more piece. A piece at 0 begins its part, also again: the stream has been opened anew. */
export function written(now: Writing, d: Delta): Writing {
  const parts = d.message_id === now.id ? [...now.parts] : [];
  const text = d.offset === 0 ? d.text : (parts[d.part]?.text ?? "") + d.text;
  while (parts.length < d.part) parts.push({ kind: "text", text: "", tool: "" });
  parts[d.part] = { kind: d.kind, text, tool: d.tool };
  return { id: d.message_id, parts };
}
