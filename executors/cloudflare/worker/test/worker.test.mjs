// The worker in workerd. Its containers are stood in for: one answers at its port with what it is sent, in capitals.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Miniflare } from "miniflare";
import ts from "typescript";

const KEY = "a-key-of-the-tests";
const NAME = "sandbox-1";
const wanted = { name: NAME, secret: "s".repeat(32), internet: false, lease: 60 };
let worker;

const standIn = `
class Tested extends Sandbox {
  constructor(ctx, env) {
    let end;
    const container = { running: false, start(o) { if (!o.env.PARAWORK_CONTAINER_SECRET || o.enableInternet !== false) throw new Error("started otherwise"); this.running = true; },
      monitor() { return new Promise((done) => { end = done; }); }, async destroy() { this.running = false; end(); },
      getTcpPort(port) { return { connect(address) {
        const { readable, writable } = new TransformStream({ transform(piece, to) { to.enqueue(new TextEncoder().encode(new TextDecoder().decode(piece).toUpperCase())); } });
        return { opened: port === 8790 && address === "10.0.0.1:8790" ? Promise.resolve() : Promise.reject(new Error("another port")), readable, writable, async close() {} };
      } }; } };
    Object.defineProperty(ctx, "container", { value: container });
    super(ctx, env);
  }
}
export { Tested };`;

before(async () => {
  const script = ts.transpileModule(readFileSync(new URL("../src/index.ts", import.meta.url), "utf8"), { compilerOptions: { target: "es2022", module: "esnext" } }).outputText + standIn;
  worker = new Miniflare({ modules: true, script, compatibilityDate: "2026-04-01", bindings: { API_KEY: KEY },
    durableObjects: { SANDBOX: { className: "Tested", useSQLite: true }, INDEX: { className: "Index", useSQLite: true } } });
  await worker.ready;
});
after(() => worker?.dispose());

const ask = (method, path, body, key = KEY) => worker.dispatchFetch(`http://worker${path}`, { method, headers: key ? { Authorization: `Bearer ${key}` } : {},
  body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body) });
const refused = async (r, status, code) => assert.deepEqual([r.status, (await r.json()).error.code], [status, code]);

test("nobody is served without the key", async () => {
  for (const key of ["", "another", `${KEY}x`, KEY.slice(1)]) for (const path of ["/v1/about", "/v1/sandboxes", `/v1/sandboxes/${NAME}/pipe`]) await refused(await ask("GET", path, undefined, key), 401, "unauthenticated");
  assert.deepEqual(await (await ask("GET", "/v1/about")).json(), { version: 1 });
});

test("what is not asked well is refused, and nothing is kept of it", async () => {
  for (const bad of ["", "{", "null", { ...wanted, name: "../x" }, { ...wanted, name: 1 }, { ...wanted, secret: "short" }, { ...wanted, internet: "yes" }, { ...wanted, lease: 0 }, { ...wanted, lease: 1.5 }, { ...wanted, lease: 3601 }])
    await refused(await ask("POST", "/v1/sandboxes", bad), 400, "invalid");
  assert.deepEqual(await (await ask("GET", "/v1/sandboxes")).json(), { sandboxes: [] });
  await refused(await ask("PUT", "/v1/sandboxes"), 405, "method_not_allowed");
  for (const path of ["/", "/v1", "/v2/sandboxes", `/v1/sandboxes/${NAME}/pipe/more`, "/v1/sandboxes/..%2f", "/v1/sandboxes/none", "/v1/sandboxes/none/pipe"]) await refused(await ask("GET", path), 404, "not_found");
  await refused(await ask("DELETE", "/v1/sandboxes/none"), 404, "not_found");
  await refused(await ask("POST", "/v1/sandboxes/none/lease", { seconds: 60 }), 404, "not_found");
});

test("a sandbox is found, piped to, extended and removed, and its name is used once", async () => {
  const made = await ask("POST", "/v1/sandboxes", wanted);
  assert.equal(made.status, 201);
  const row = await made.json();
  assert.deepEqual([row.name, row.state, row.ended], [NAME, "running", 0]);
  await refused(await ask("POST", "/v1/sandboxes", wanted), 409, "already_exists");
  assert.deepEqual((await (await ask("GET", `/v1/sandboxes?prefix=${NAME}`)).json()).sandboxes, [row]);
  assert.deepEqual((await (await ask("GET", "/v1/sandboxes?prefix=other")).json()).sandboxes, []);
  assert.equal((await ask("POST", `/v1/sandboxes/${NAME}/lease`, { seconds: 60 })).status, 204);
  await refused(await ask("POST", `/v1/sandboxes/${NAME}/lease`, { seconds: "60" }), 400, "invalid");

  const up = { headers: { Authorization: `Bearer ${KEY}`, Upgrade: "websocket" } };
  const { webSocket } = await worker.dispatchFetch(`http://worker/v1/sandboxes/${NAME}/pipe`, up);
  webSocket.accept();
  const heard = new Promise((done) => webSocket.addEventListener("message", (m) => done(new TextDecoder().decode(m.data))));
  webSocket.send(new TextEncoder().encode("through"));
  assert.equal(await heard, "THROUGH");
  webSocket.close();

  assert.equal((await ask("DELETE", `/v1/sandboxes/${NAME}`)).status, 204);
  await refused(await ask("GET", `/v1/sandboxes/${NAME}`), 404, "not_found");
  await refused(await ask("POST", "/v1/sandboxes", wanted), 409, "already_exists");
});
