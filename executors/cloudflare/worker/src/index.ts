// The worker that Parawork speaks to. It starts a container for each sandbox, gives a pipe to the program that attends in it, and ends it when
// nobody extends its lease. Everything that is said to a container passes through unread. See docs/cloudflare.md.

import { DurableObject } from "cloudflare:workers";

interface Env {
  SANDBOX: DurableObjectNamespace<Sandbox>;
  INDEX: DurableObjectNamespace<Index>;
  API_KEY: string; // a secret: wrangler secret put API_KEY
}

const VERSION = 1;
const PORT = 8790;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
const MAX_LEASE = 3600;

type State = "running" | "ended";
type Row = { name: string; state: State; began: number; ended: number };

const refuse = (status: number, code: string, message: string) => Response.json({ error: { code, message } }, { status });

async function same(a: string, b: string): Promise<boolean> {
  const hash = async (s: string) => new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(s)));
  const [x, y] = await Promise.all([hash(a), hash(b)]);
  return x.reduce((differ, v, i) => differ | (v ^ y[i]), 0) === 0;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const given = request.headers.get("Authorization") ?? "";
    if (!env.API_KEY || !(await same(given, `Bearer ${env.API_KEY}`))) return refuse(401, "unauthenticated", "the key is not taken");
    const url = new URL(request.url);
    const parts = url.pathname.split("/").slice(1);
    const index = env.INDEX.get(env.INDEX.idFromName("index"));
    if (url.pathname === "/v1/about" && request.method === "GET") return Response.json({ version: VERSION });
    if (parts[0] !== "v1" || parts[1] !== "sandboxes" || parts.length > 4) return refuse(404, "not_found", "there is no such route");
    if (parts.length === 2) {
      if (request.method === "GET") return Response.json({ sandboxes: await index.list(url.searchParams.get("prefix") ?? "") });
      if (request.method !== "POST") return refuse(405, "method_not_allowed", request.method);
      const body = await request.json<{ name?: unknown; secret?: unknown; internet?: unknown; lease?: unknown }>().catch(() => null);
      if (!body || typeof body.name !== "string" || !NAME.test(body.name) || typeof body.secret !== "string" || body.secret.length < 32 ||
          typeof body.internet !== "boolean" || !lease(body.lease)) return refuse(400, "invalid", "name, secret, internet and lease are required");
      // In the index before it begins: what was begun is always found.
      if (!(await index.add(body.name))) return refuse(409, "already_exists", "a name is used once");
      const row = await env.SANDBOX.get(env.SANDBOX.idFromName(body.name)).begin(body.name, body.secret, body.internet, body.lease as number);
      return row ? Response.json(row, { status: 201 }) : refuse(409, "already_exists", "a name is used once");
    }
    if (!NAME.test(parts[2])) return refuse(404, "not_found", "there is no such sandbox");
    const known = await index.has(parts[2]);
    if (!known) return refuse(404, "not_found", "there is no such sandbox");
    const sandbox = env.SANDBOX.get(env.SANDBOX.idFromName(parts[2]));
    if (parts.length === 3) {
      if (request.method === "GET") return Response.json(await sandbox.look(parts[2]));
      if (request.method !== "DELETE") return refuse(405, "method_not_allowed", request.method);
      await sandbox.end();
      await index.drop(parts[2]);
      return new Response(null, { status: 204 });
    }
    if (parts[3] === "lease" && request.method === "POST") {
      const body = await request.json<{ seconds?: unknown }>().catch(() => null);
      if (!body || !lease(body.seconds)) return refuse(400, "invalid", `seconds must be 1 to ${MAX_LEASE}`);
      return (await sandbox.extend(body.seconds as number)) ? new Response(null, { status: 204 }) : refuse(410, "ended", "the container has ended, and all in it");
    }
    if (parts[3] === "pipe" && request.headers.get("Upgrade") === "websocket") return sandbox.fetch(request);
    return refuse(404, "not_found", "there is no such route");
  },
} satisfies ExportedHandler<Env>;

const lease = (v: unknown): boolean => Number.isInteger(v) && (v as number) >= 1 && (v as number) <= MAX_LEASE;

// Index knows every name that is in use.
export class Index extends DurableObject<Env> {
  async add(name: string): Promise<boolean> {
    if (await this.ctx.storage.get(name)) return false;
    await this.ctx.storage.put(name, Date.now());
    return true;
  }
  async has(name: string): Promise<boolean> {
    return (await this.ctx.storage.get(name)) !== undefined;
  }
  async drop(name: string): Promise<void> {
    await this.ctx.storage.delete(name);
  }
  async list(prefix: string): Promise<Row[]> {
    const all = await this.ctx.storage.list<number>(prefix ? { prefix, limit: 1000 } : { limit: 1000 });
    return Promise.all([...all.keys()].map((name) => this.env.SANDBOX.get(this.env.SANDBOX.idFromName(name)).look(name)));
  }
}

// Sandbox is one container. It begins once: a container that has ended is never begun again under the same name.
export class Sandbox extends DurableObject<Env> {
  async begin(name: string, secret: string, internet: boolean, seconds: number): Promise<Row | null> {
    if (await this.ctx.storage.get("began")) return null; // also when it has ended and was forgotten
    await this.ctx.storage.put({ began: Date.now(), until: Date.now() + seconds * 1000 });
    this.ctx.container!.start({ env: { PARAWORK_CONTAINER_SECRET: secret }, enableInternet: internet });
    this.watch();
    await this.ctx.storage.setAlarm(Date.now() + 30_000);
    return this.look(name);
  }
  // An object that was evicted and begins anew watches its container again.
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    if (ctx.container?.running) this.watch();
  }
  watch(): void {
    this.ctx.container!.monitor().then(() => this.over(), () => this.over());
  }
  async over(): Promise<void> {
    if (!(await this.ctx.storage.get("ended"))) await this.ctx.storage.put("ended", Date.now());
  }
  async look(name: string): Promise<Row> {
    const began = (await this.ctx.storage.get<number>("began")) ?? 0;
    if (began && !this.ctx.container!.running) await this.over();
    const ended = (await this.ctx.storage.get<number>("ended")) ?? 0;
    return { name, state: began && !ended ? "running" : "ended", began, ended };
  }
  async extend(seconds: number): Promise<boolean> {
    if ((await this.look("")).state !== "running") return false;
    const until = (await this.ctx.storage.get<number>("until")) ?? 0;
    await this.ctx.storage.put("until", Math.max(until, Date.now() + seconds * 1000));
    return true;
  }
  async end(): Promise<void> {
    await this.over();
    if (this.ctx.container!.running) await this.ctx.container!.destroy();
    await this.ctx.storage.deleteAlarm();
  }
  // The alarm keeps the object, and so its container, from falling asleep while its lease lasts.
  async alarm(): Promise<void> {
    if ((await this.look("")).state !== "running") return;
    if (Date.now() > ((await this.ctx.storage.get<number>("until")) ?? 0)) return this.end();
    await this.ctx.storage.setAlarm(Date.now() + 30_000);
  }
  // A pipe: what comes as binary messages goes to the container's port, and the other way round.
  async fetch(_request: Request): Promise<Response> {
    if ((await this.look("")).state !== "running") return refuse(410, "ended", "the container has ended, and all in it");
    let socket: Socket | undefined;
    for (let tries = 0; !socket; tries++) {
      const s = this.ctx.container!.getTcpPort(PORT).connect(`10.0.0.1:${PORT}`);
      try {
        await s.opened;
        socket = s;
      } catch (e) { // it has only just begun
        if (tries >= 60 || !this.ctx.container!.running) return refuse(503, "not_ready", `nothing attends in the container: ${e}`);
        await new Promise((r) => setTimeout(r, 500));
      }
    }
    const [client, server] = Object.values(new WebSocketPair());
    server.binaryType = "arraybuffer"; // newer compatibility dates give Blobs, which cannot be read in order without waiting
    server.accept();
    const to = socket.writable.getWriter();
    let writing = Promise.resolve();
    // The container's end first: what it wrote last must have been sent before the socket goes.
    const close = () => { try { server.close(1000); } catch {} setTimeout(() => socket!.close().catch(() => {}), 1000); };
    server.addEventListener("message", (m) => {
      if (typeof m.data === "string") return close();
      writing = writing.then(() => to.write(new Uint8Array(m.data as ArrayBuffer))).catch(() => {}); // the other direction ends, too
    });
    server.addEventListener("close", close);
    server.addEventListener("error", close);
    (async () => {
      for await (const piece of socket!.readable) server.send(piece as Uint8Array);
    })().then(close, close);
    return new Response(null, { status: 101, webSocket: client });
  }
}
