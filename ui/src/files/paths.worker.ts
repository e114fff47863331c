import { PathIndex } from "./fuzzy";

/** What the worker is asked: paths of a workspace that fit. The list is loaded here, so that the page never waits for it. */
export interface PathsAsk {
  id: number;
  url: string;
  typed: string;
  most: number;
  whole: boolean;
}

export interface PathsAnswer {
  id: number;
  items: { path: string; at: number[] }[];
  total: number;
  /** How many paths there are. */
  of: number;
  truncated: boolean;
  /** Why there is no list: the status and the text of the answer. */
  failed?: { status: number; body: string };
}

/** How long a list is used before it is asked for again, in ms. */
const FRESH_MS = 10_000;

interface List {
  index: PathIndex;
  tag: string | null;
  truncated: boolean;
}

let url = "";
let at = 0;
let list: Promise<List | { status: number; body: string }> | undefined;

async function load(old: List | undefined): Promise<List | { status: number; body: string }> {
  try {
    const answer = await fetch(url, { headers: old?.tag ? { "If-None-Match": old.tag } : {} });
    if (answer.status === 304 && old) return old;
    if (!answer.ok) return { status: answer.status, body: await answer.text() };
    const tag = answer.headers.get("ETag");
    if (old && tag && tag === old.tag) return old; // the browser's own copy
    const { items, truncated } = (await answer.json()) as { items: string[]; truncated: boolean };
    return { index: new PathIndex(items), tag, truncated };
  } catch {
    return { status: 0, body: "" };
  }
}

async function current(): Promise<List | { status: number; body: string }> {
  const before = await list;
  return before ?? { status: 0, body: "" };
}

self.onmessage = async (m: MessageEvent<PathsAsk>) => {
  const ask = m.data;
  if (ask.url !== url || Date.now() - at > FRESH_MS) {
    const old = ask.url === url ? list : undefined;
    url = ask.url;
    at = Date.now();
    list = (async () => {
      const was = await old;
      return load(was && "index" in was ? was : undefined);
    })();
  }
  const got = await current();
  const empty = { id: ask.id, items: [], total: 0, of: 0, truncated: false };
  if (!("index" in got)) {
    at = 0;
    self.postMessage({ ...empty, failed: got } satisfies PathsAnswer);
    return;
  }
  const found = got.index.find(ask.typed, ask.most, ask.whole);
  self.postMessage({
    id: ask.id,
    ...found,
    of: got.index.paths.length,
    truncated: got.truncated,
  } satisfies PathsAnswer);
};
