import { afterEach, beforeEach, expect, test, vi } from "vitest";

const BASE = "/api/v1";
const line = (index: number, status: number, body: unknown) =>
  `${JSON.stringify({ index, status })}\n${JSON.stringify(body)}\n`;

let asked: { url: string; paths?: string[] }[];
let answer: (url: string) => Response;
let fetchTogether: typeof import("./batch").fetchTogether;

beforeEach(async () => {
  asked = [];
  vi.resetModules();
  ({ fetchTogether } = await import("./batch"));
  vi.stubGlobal("fetch", async (what: Request | string, init?: RequestInit) => {
    const url = typeof what === "string" ? what : new URL(what.url).pathname;
    asked.push({ url, paths: init?.body ? (JSON.parse(String(init.body)) as { paths: string[] }).paths : undefined });
    return answer(url);
  });
});
afterEach(() => vi.unstubAllGlobals());

const get = (path: string, signal?: AbortSignal) =>
  fetchTogether(new Request(`http://host${BASE}${path}`, { signal }), BASE);

/** A body that comes in pieces cut anywhere. */
const inPieces = (text: string, size: number) =>
  new Response(
    new ReadableStream({
      start(c) {
        const bytes = new TextEncoder().encode(text);
        for (let i = 0; i < bytes.length; i += size) c.enqueue(bytes.slice(i, i + size));
        c.close();
      },
    }),
  );

test("reads of one moment are one request, and each gets its own answer, whatever the order and the pieces they come in", async () => {
  answer = () => inPieces(line(1, 404, { code: "not_found", message: "Grüße" }) + line(0, 200, { a: "世界" }), 3);
  const [a, b] = await Promise.all([get("/me?x=1"), get("/teams/t/inbox")]);
  expect(asked).toEqual([{ url: "/api/v1/batch", paths: ["/me?x=1", "/teams/t/inbox"] }]);
  expect([a.status, await a.json()]).toEqual([200, { a: "世界" }]);
  expect([b.status, await b.json()]).toEqual([404, { code: "not_found", message: "Grüße" }]);
});

test("one read alone is an ordinary request", async () => {
  answer = () => Response.json({ ok: true });
  await get("/me");
  expect(asked).toEqual([{ url: "/api/v1/me" }]);
});

test("what does not fit into a batch is asked for by itself, and so is everything of a server that has none", async () => {
  answer = (url) => (url.endsWith("/batch") ? inPieces(line(0, 0, null) + line(1, 200, 1), 99) : Response.json(url));
  const both = await Promise.all([get("/a"), get("/b")]);
  expect(await Promise.all(both.map((r) => r.json()))).toEqual(["/api/v1/a", 1]);
  answer = (url) => (url.endsWith("/batch") ? new Response("", { status: 404 }) : Response.json(url));
  const old = await Promise.all([get("/a"), get("/b")]);
  expect(await Promise.all(old.map((r) => r.json()))).toEqual(["/api/v1/a", "/api/v1/b"]);
  asked = [];
  await Promise.all([get("/a"), get("/b")]);
  expect(asked.map((a) => a.url)).toEqual(["/api/v1/a", "/api/v1/b"]);
});

test("when a batch is refused each is asked for by itself: some are public, or their paths are too long together", async () => {
  for (const status of [401, 413]) {
    asked = [];
    answer = (url) =>
      url.endsWith("/public") ? Response.json({ ok: true }) : Response.json({ code: "signed_out" }, { status });
    const both = await Promise.all([get("/public"), get("/me")]);
    expect(both.map((r) => r.status)).toEqual([200, status]);
    expect(asked.map((a) => a.url)).toEqual(["/api/v1/batch", "/api/v1/public", "/api/v1/me"]);
  }
});

test("a server that is not ready is asked once for all", async () => {
  answer = () => Response.json({ code: "starting" }, { status: 503, headers: { "Retry-After": "1" } });
  const both = await Promise.all([get("/a"), get("/b")]);
  expect(both.map((r) => [r.status, r.headers.get("Retry-After")])).toEqual([
    [503, "1"],
    [503, "1"],
  ]);
  expect(asked.map((a) => a.url)).toEqual(["/api/v1/batch"]);
});

test("an answer that ends early fails those that wait, and who gives up hears of it", async () => {
  answer = () => inPieces(line(0, 200, 1), 5);
  const [a, b] = await Promise.allSettled([get("/a"), get("/b")]);
  expect([a.status, b.status]).toEqual(["fulfilled", "rejected"]);
  const stop = new AbortController();
  answer = () => inPieces(line(0, 200, 1) + line(1, 200, 2), 99);
  const gone = Promise.allSettled([get("/a", stop.signal), get("/b"), get("/c")]);
  stop.abort();
  expect((await gone).map((r) => r.status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
});
