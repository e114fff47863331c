import { t } from "@lingui/core/macro";
import { raw, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";

export interface Query {
  q: string;
  regex: boolean;
  case: boolean;
  word: boolean;
  glob: string;
}

export type Event = { kind: "file"; file: Schemas["FoundFile"] } | { kind: "end"; end: Schemas["FindEnd"] };

/** Splits what arrived of a stream of server-sent events into whole events, and returns what is left. */
export function eventsOf(text: string, each: (event: string, data: string) => void): string {
  let from = 0;
  for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", from)) {
    let name = "message";
    let data = "";
    for (const line of text.slice(from, end).split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data) each(name, data);
    from = end + 2;
  }
  return text.slice(from);
}

/** Searches the files of a workspace; each file comes as soon as it was found. Ends with the signal. */
export async function findInFiles(
  workspace: string,
  query: Query,
  signal: AbortSignal,
  each: (e: Event) => void,
): Promise<void> {
  const params = new URLSearchParams({ q: query.q });
  for (const flag of ["regex", "case", "word"] as const) if (query[flag]) params.set(flag, "true");
  if (query.glob.trim()) params.set("glob", query.glob.trim());
  const answer = await raw(`/workspaces/${workspace}/find?${params}`, {
    signal,
    headers: { Accept: "text/event-stream" },
  });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  let ended = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    left = eventsOf(left + value, (event, data) => {
      if (event === "file") each({ kind: "file", file: JSON.parse(data) });
      else if (event === "end") {
        ended = true;
        each({ kind: "end", end: JSON.parse(data) });
      } else if (event === "error") throw new ApiError(500, JSON.parse(data));
    });
  }
  if (!ended)
    throw new ApiError(0, { code: "network", message: t`The search was interrupted. Try again.`, request_id: "" });
}
