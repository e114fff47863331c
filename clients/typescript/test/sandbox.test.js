// Runs against the server of PARAWORK_URL.
import assert from "node:assert/strict";
import { get } from "node:http";
import { after, before, test } from "node:test";
import { CommandExitError, ParaworkError, Sandbox, TimeoutError } from "../src/index.js";

let sandbox;
const options = { key: "typescript", executor: process.env.PARAWORK_TEST_EXECUTOR };
before(async () => {
  sandbox = await Sandbox.create(options);
});
after(() => sandbox.kill());

test("a key finds the sandbox again", async () => {
  assert.equal((await Sandbox.create(options)).sandboxId, sandbox.sandboxId);
  assert.equal((await Sandbox.connect(sandbox.sandboxId)).info.key, "typescript");
  assert.ok((await Sandbox.list()).some((s) => s.id === sandbox.sandboxId));
});

test("another image or network is refused or replaced", async () => {
  await assert.rejects(Sandbox.create({ ...options, image: "none:1" }), (e) => e.code === "sandbox_differs" && e.details.sandbox_id === sandbox.sandboxId);
  const network = { mode: "none" };
  await assert.rejects(Sandbox.create({ ...options, network, replace: true }), (e) => e.code === "sandbox_network_unsupported");
});

test("commands", async () => {
  const parts = [];
  const r = await sandbox.commands.run("echo $A; echo bad >&2", { envs: { A: "grüße" }, onStdout: (t) => parts.push(t) });
  assert.equal(r.stdout, "grüße\n");
  assert.equal(r.stderr, "bad\n");
  assert.equal(parts.join(""), "grüße\n");
  await assert.rejects(sandbox.commands.run("echo no; exit 3"), (e) => e instanceof CommandExitError && e.exitCode === 3 && e.stdout === "no\n");
  await assert.rejects(sandbox.commands.run("sleep 60", { timeoutMs: 100 }), TimeoutError);
});

test("files", async () => {
  await sandbox.files.write("folder/a b.txt", "text ü");
  assert.equal(await sandbox.files.read("folder/a b.txt"), "text ü");
  await sandbox.files.write("folder/bytes", new Uint8Array([0, 255]));
  assert.deepEqual(await sandbox.files.read("folder/bytes", { format: "bytes" }), new Uint8Array([0, 255]));
  assert.deepEqual((await sandbox.files.list("folder")).map((e) => e.name).sort(), ["a b.txt", "bytes"]);
  await sandbox.files.remove("folder/bytes");
  assert.equal(await sandbox.files.exists("folder/bytes"), false);
  assert.equal(await sandbox.files.exists("folder/a b.txt"), true);
  assert.equal(await sandbox.files.exists("none/x"), false);
  assert.equal(await sandbox.files.exists("folder/a b.txt/x"), false);
  assert.equal(await sandbox.files.exists("folder"), true);
  await sandbox.commands.run("mkdir many && cd many && seq -w 10050 | xargs touch");
  assert.equal(await sandbox.files.exists("many/10050"), true);
  assert.equal(await sandbox.files.exists("many/10051"), false);
  await assert.rejects(sandbox.files.read("none"), (e) => e instanceof ParaworkError && e.status === 404 && e.code !== "");
});

test("code", async () => {
  const printed = [];
  const r = await sandbox.runCode("print('hi')\n6 * 7", { onStdout: (t) => printed.push(t) });
  assert.equal(r.text, "42");
  assert.equal(printed.join(""), "hi\n");
  assert.equal((await sandbox.runCode("1 / 0")).error.name, "ZeroDivisionError");
});

test("ports", async () => {
  const server = `import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=s.serve_forever, daemon=True).start()
s.server_port`;
  const number = Number((await sandbox.runCode(server)).text);
  const port = await sandbox.getPort(number);
  assert.equal(port.host, await sandbox.getHost(number));
  assert.ok(port.expiresAt > new Date());
  const fetched = (headers) =>
    new Promise((done, failed) => {
      // Where the system does not resolve the host, the server itself is asked for it.
      get(process.env.PARAWORK_URL, { headers: { ...headers, Host: port.host } }, async (r) => {
        let text = "";
        for await (const part of r) text += part;
        done(text);
      }).on("error", failed);
    });
  assert.equal(await fetched(port.headers), "hello");
  assert.notEqual(await fetched({}), "hello");
});

test("its end", async () => {
  await sandbox.setTimeout(3_600_000);
  assert.equal(await sandbox.kill(), true);
  await assert.rejects(sandbox.commands.run("true"), ParaworkError);
});

test("only requests that may be sent twice are sent again", async () => {
  let sent = 0;
  const fetch = async () => {
    sent++;
    return sent < 3 ? new Response("", { status: 503 }) : Response.json({ id: "x" });
  };
  const flaky = await Sandbox.connect("x", { fetch });
  assert.equal(sent, 3);
  const stream = 'event: queued\ndata: {}\n\nevent: error\ndata: {"code":"budget","message":"No."}\n\n';
  const refused = await Sandbox.connect("x", { fetch: async (_, r) => (r.method === "POST" ? new Response(stream) : Response.json({ id: "x" })) });
  await assert.rejects(refused.runCode("1"), (e) => e instanceof ParaworkError && e.code === "budget");
  sent = 0;
  await assert.rejects(flaky.commands.run("true"), (e) => e.status === 503);
  assert.equal(sent, 1);
});
