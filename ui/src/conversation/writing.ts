import { api, apiUrl, data, type Schemas } from "@/api/client";
import { Backoff } from "@/net/backoff";

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

/** The message that the model of Parawork's own agent writes now, or has just written. */
export interface Writing {
  id: string;
  parts: readonly WritingPart[];
}

export const NOTHING: Writing = { id: "", parts: [] };

/** What is written when a view of the thread has come: an attempt that was given up is no longer shown. */
export function viewed(now: Writing, view: Schemas["ThreadView"]): Writing {
  const at = view.messages.find((m) => m.id === now.id);
  return at && at.state !== "streaming" && at.state !== "complete" ? NOTHING : now;
}

/** What is written with one more piece. A piece at 0 begins its part, also again: the stream has been opened anew. */
export function written(now: Writing, d: Delta): Writing {
  const parts = d.message_id === now.id ? [...now.parts] : [];
  const text = d.offset === 0 ? d.text : (parts[d.part]?.text ?? "") + d.text;
  while (parts.length < d.part) parts.push({ kind: "text", text: "", tool: "" });
  parts[d.part] = { kind: d.kind, text, tool: d.tool };
  return { id: d.message_id, parts };
}

/** Follows what the agent of a session writes until the returned function is called. */
export function follow(session: string, show: (w: Writing) => void): () => void {
  const backoff = new Backoff();
  let now = NOTHING;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame = 0;
  let over = false;
  const set = (next: Writing) => {
    if (next === now) return;
    now = next;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      show(now);
    });
  };
  const again = () => {
    source?.close();
    if (!over) timer = setTimeout(() => void open(), backoff.next());
  };
  const open = async () => {
    try {
      const thread = await data(api.GET("/sessions/{id}/thread", { params: { path: { id: session } } }));
      if (over) return;
      source = new EventSource(apiUrl(`/threads/${encodeURIComponent(thread.id)}/events?since=${thread.version}`));
      source.onopen = () => backoff.reset();
      source.addEventListener("view", (m) => set(viewed(now, JSON.parse(m.data))));
      source.addEventListener("delta", (m) => set(written(now, JSON.parse(m.data))));
      source.onerror = again;
    } catch {
      again(); // there is no thread before the session's terminal has connected
    }
  };
  void open();
  return () => {
    over = true;
    source?.close();
    clearTimeout(timer);
    cancelAnimationFrame(frame);
  };
}
