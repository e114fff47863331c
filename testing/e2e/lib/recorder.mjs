// Records what the page's terminal sockets receive, by absolute offset, so that a test can compare it byte for byte with what the
// program wrote. Installed before any script of the page runs.

/** Call on a context before its pages are opened. */
export async function recordTerminals(context) {
  await context.addInitScript(() => {
    const Real = window.WebSocket;
    const logs = (window.__terminals = {});
    window.WebSocket = class extends Real {
      constructor(url, protocols) {
        super(url, protocols);
        const session = /\/sessions\/([^/]+)\/terminal/.exec(String(url))?.[1];
        if (!session) return;
        logs[session] ??= { chunks: [], end: null, gaps: [], sockets: 0, snapshots: [], received: 0 };
        const log = logs[session];
        log.sockets++;
        this.addEventListener("message", (e) => {
          if (!(e.data instanceof ArrayBuffer)) return;
          const view = new DataView(e.data);
          log.received += e.data.byteLength;
          if (view.getUint8(0) === 1) log.snapshots.push(Number(view.getBigUint64(1)));
          if (view.getUint8(0) !== 0) return;
          const from = Number(view.getBigUint64(1));
          const bytes = new Uint8Array(e.data.slice(9));
          if (log.end === null) log.start = from;
          else if (from !== log.end) log.gaps.push([log.end, from]);
          log.end = from + bytes.length;
          log.chunks.push(bytes);
        });
      }
    };
  });
}

/** What was received for a session: `{start, end, gaps, sockets, snapshot, received, sha256}`; snapshot is the offset of the last one. */
export async function received(page, session) {
  return page.evaluate(async (session) => {
    const log = window.__terminals?.[session];
    if (!log) return undefined;
    const all = new Uint8Array(log.chunks.reduce((n, c) => n + c.length, 0));
    let at = 0;
    for (const c of log.chunks) {
      all.set(c, at);
      at += c.length;
    }
    const hash = await crypto.subtle.digest("SHA-256", all);
    return { start: log.start, end: log.end, gaps: log.gaps, sockets: log.sockets, snapshot: log.snapshots.at(-1), received: log.received, sha256: [...new Uint8Array(hash)].map((b) => b.toString(16).padStart(2, "0")).join("") };
  }, session);
}
