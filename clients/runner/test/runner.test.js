import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const command = new URL("../bin/parawork-runner.js", import.meta.url).pathname;
const body = '#!/bin/sh\necho "ran $*"\nexit 7\n';

/** A server that offers a program with this sum; how often it was downloaded. */
async function offering(sha256, use) {
  let downloads = 0;
  const server = createServer((q, r) => {
    if (q.url === "/api/v1/runner/downloads") {
      const item = {
        os: platform(),
        arch: { x64: "amd64", arm64: "arm64" }[arch()],
        file: "parawork-x",
        sha256,
        available: true,
        reason: "",
      };
      return r.setHeader("content-type", "application/json").end(JSON.stringify({ items: [item] }));
    }
    downloads++;
    r.end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  try {
    await use(`http://127.0.0.1:${server.address().port}`, () => downloads);
  } finally {
    server.close();
  }
}

const run = (env, ...args) =>
  new Promise((done) =>
    execFile(process.execPath, [command, ...args], { env: { ...process.env, ...env } }, (e, out, err) =>
      done({ code: e?.code ?? 0, out, err }),
    ),
  );

test("downloads the program once, and runs it with the same arguments", async () => {
  const home = mkdtempSync(join(tmpdir(), "runner-"));
  await offering(createHash("sha256").update(body).digest("hex"), async (server, downloads) => {
    const args = ["--server", server, "--name", "Work Laptop"];
    for (let i = 0; i < 2; i++) {
      const r = await run({ HOME: home }, ...args);
      assert.equal(r.code, 7, r.err);
      assert.equal(r.out, `ran runner ${args.join(" ")}\n`);
    }
    assert.equal((await run({ HOME: home, PARAWORK_SERVER: server }, "status")).out, "ran runner status\n");
    assert.equal(downloads(), 1);
  });
});

test("keeps nothing that is not what the server named", async () => {
  const home = mkdtempSync(join(tmpdir(), "runner-"));
  await offering("0".repeat(64), async (server) => {
    const r = await run({ HOME: home }, "--server", server);
    assert.equal(r.code, 1);
    assert.match(r.err, /not what the server named/);
    assert.deepEqual(readdirSync(join(home, ".parawork", "bin")), []);
  });
  assert.match((await run({ HOME: home, PARAWORK_SERVER: "" })).err, /say the server/);
});
