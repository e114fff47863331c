// What a page asks of the server until it is quiet: each request with the bytes that came over the network, as Chromium counts them.

/** ms without a request after which a page counts as loaded. */
const QUIET = 3_000;

const KINDS = { Document: "page", Script: "script", Stylesheet: "style", Font: "font", Image: "image", Fetch: "api", XHR: "api", WebSocket: "socket", Manifest: "other" };

/** Opens a page with an empty cache and counts until it is quiet. `ready` waits for what makes it useful. */
export async function firstLoad(page, url, ready, { quiet = QUIET } = {}) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  await cdp.send("Network.clearBrowserCache");
  const requests = new Map();
  let last = Date.now();
  const touch = () => {
    last = Date.now();
  };
  cdp.on("Network.requestWillBeSent", (e) => {
    touch();
    if (!/^https?:/.test(e.request.url)) return;
    requests.set(e.requestId, { url: e.request.url, kind: KINDS[e.type] ?? "other", bytes: 0, open: true, at: Date.now() });
  });
  cdp.on("Network.webSocketCreated", (e) => {
    touch();
    requests.set(e.requestId, { url: e.url, kind: "socket", bytes: 0, open: false, at: Date.now() });
  });
  const ended = (e) => {
    touch();
    const r = requests.get(e.requestId);
    if (!r) return;
    r.open = false;
    if (e.encodedDataLength) r.bytes = e.encodedDataLength;
  };
  cdp.on("Network.loadingFinished", ended);
  cdp.on("Network.loadingFailed", ended);
  await page.goto(url);
  await ready(page);
  const readyAt = Date.now();
  const end = Date.now() + 60_000;
  // A long poll, such as a stream of events, never ends: only what is asked newly holds the page open.
  while (Date.now() - last < quiet && Date.now() < end) await new Promise((r) => setTimeout(r, 50));
  await cdp.detach();
  // What a worker fetches belongs to the page too, but Chromium tells its size to the worker alone.
  for (const r of requests.values()) {
    if (r.bytes > 0 || r.kind !== "script") continue;
    const answer = await fetch(r.url, { method: "HEAD", headers: { "Accept-Encoding": "br, gzip" } });
    r.bytes = Number(answer.headers.get("Content-Length"));
  }
  const list = [...requests.values()].map((r) => ({ ...r, path: new URL(r.url).pathname + new URL(r.url).search, late: r.at > readyAt }));
  return { list, ...summary(list) };
}

/** Requests, and bytes by kind. */
export function summary(list) {
  const bytes = (f) => list.filter(f).reduce((n, r) => n + r.bytes, 0);
  const count = (f) => list.filter(f).length;
  return {
    requests: list.length,
    bytes: bytes(() => true),
    script: bytes((r) => r.kind === "script"),
    scripts: count((r) => r.kind === "script"),
    api: count((r) => r.kind === "api"),
  };
}

/**
 * The pages with a budget: what they may send, in kB (1,000 bytes) as they come over the network, and in requests. docs/performance.md has
 * what they are to come down to.
 */
export const BUDGETS = { "sign-in": { kB: 60, requests: 12 }, inbox: { kB: 210, requests: 21 }, terminal: { kB: 385, requests: 30 } };

/** Where each page is, and what makes it useful. */
export const screens = (instance, ws, session) => ({
  "sign-in": { url: `${instance.url}/login`, ready: (page) => page.getByRole("button", { name: /^sign in$/i }).waitFor() },
  inbox: { url: `${instance.url}/${instance.team}/inbox`, ready: (page) => page.getByRole("heading", { name: "Inbox" }).first().waitFor() },
  terminal: { url: `${instance.url}/${instance.team}/w/${ws.key}?session=${session.id}`, ready: (page) => page.locator("[data-link=live]").first().waitFor() },
});

/** A workspace whose agent has changed files and stands at a prompt, as people find it most often. */
export async function started(instance) {
  const ws = await instance.workspace("Measured");
  const session = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo ready; exec sleep 10000"], cols: 120, rows: 32 });
  return { ws, session };
}
