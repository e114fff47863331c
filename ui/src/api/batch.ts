// Reads that begin at almost the same time go to the server as one request: a page asks for a dozen things at once, and each change that
// an event tells of makes several of them stale.

const WAIT = 4; // ms: what one rendering asks for begins within
const MOST = 64;

interface Read {
  path: string;
  request: Request;
  resolve: (r: Response) => void;
  reject: (cause: unknown) => void;
}

let waiting: Read[] = [];
let possible = true; // an older server has no batches

/** Like fetch, for a GET of JSON below `base`. Fails as fetch does. */
export function fetchTogether(request: Request, base: string): Promise<Response> {
  if (!possible) return fetch(request);
  return new Promise((resolve, reject) => {
    const url = new URL(request.url);
    waiting.push({ path: url.pathname.slice(base.length) + url.search, request, resolve, reject });
    if (waiting.length === 1) setTimeout(() => send(base), WAIT);
    else if (waiting.length === MOST) send(base);
  });
}

function send(base: string): void {
  const all = waiting.filter((r) => !r.request.signal.aborted);
  for (const r of waiting) if (r.request.signal.aborted) r.reject(r.request.signal.reason);
  waiting = [];
  const alone = (r: Read): void => {
    fetch(r.request).then(r.resolve, r.reject);
  };
  if (all.length === 0) return;
  if (all.length === 1) {
    alone(all[0]!);
    return;
  }
  const stop = new AbortController();
  const open = new Set(all);
  for (const r of all)
    r.request.signal.addEventListener("abort", () => {
      r.reject(r.request.signal.reason);
      if (open.delete(r) && open.size === 0) stop.abort();
    });
  const settle = async () => {
    const answer = await fetch(`${base}/batch`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ paths: all.map((r) => r.path) }),
      signal: stop.signal,
    });
    if (answer.status === 404 || answer.status === 405) possible = false;
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      // Refused is the batch, not each read: some are for whoever is not signed in, and together their paths can be too long.
      for (const r of open) alone(r);
      return;
    }
    if (!answer.ok || !answer.body) {
      // A server that is not ready, or asked too much: the same for each.
      for (const r of open) r.resolve(answer.clone());
      return;
    }
    for await (const [index, status, body] of answersOf(answer.body)) {
      const r = all[index];
      if (!r || !open.delete(r)) continue;
      if (status === 0) alone(r);
      else r.resolve(new Response(body, { status, headers: { "Content-Type": "application/json" } }));
    }
    // The connection ended before its time.
    if (open.size > 0) throw new TypeError("The answer ended early");
  };
  settle().catch((cause: unknown) => {
    for (const r of open) r.reject(cause);
  });
}

/** Reads the pairs of lines: which read and its status, then its answer. */
export async function* answersOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<[number, number, string]> {
  const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let kept: string[] = [];
  let head: { index: number; status: number } | undefined;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = value.split("\n");
    kept.push(lines.shift()!);
    for (const next of lines) {
      const line = kept.join("");
      kept = [next];
      if (!head) head = JSON.parse(line) as { index: number; status: number };
      else {
        yield [head.index, head.status, line];
        head = undefined;
      }
    }
  }
}
