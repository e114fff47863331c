// The real server binary on an empty data folder, and a small client of its API.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
export const password = "correct horse battery";

// Not below the system's temporary folder: Codex refuses to install its helper there.
const scratch = join(root, ".cache/e2e");

/** A program that prints `listening on http://...`. */
async function listening(cmd, args, options, seen = () => true) {
  const child = spawn(cmd, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const log = [];
  child.stderr.on("data", (d) => log.push(d.toString()));
  const lines = createInterface({ input: child.stdout });
  let url;
  const ready = new Promise((ok, no) => {
    const timer = setTimeout(() => no(new Error(`${cmd} did not listen\n${log.join("")}`)), 120_000);
    lines.on("line", (line) => {
      log.push(`${line}\n`);
      url ??= line.match(/listening on (http:\S+)/)?.[1];
      if (seen(line) && url) {
        clearTimeout(timer);
        ok();
      }
    });
    child.on("exit", (code, signal) => no(new Error(`${cmd} ended (${code ?? signal})\n${log.join("")}`)));
  });
  await ready;
  return { child, url, log };
}

export class Instance {
  constructor(dir, config) {
    this.dir = dir;
    this.data = join(dir, "data");
    this.config = config;
    this.listen = "127.0.0.1:0";
  }

  /** Starts a server on a new data folder. `config` is merged into config.json. */
  static async start(config = {}) {
    mkdirSync(scratch, { recursive: true });
    const dir = mkdtempSync(join(scratch, "instance-"));
    const h = new Instance(dir, config);
    await h.boot();
    return h;
  }

  /** Starts the server, again after a kill: then on the address it had, with the data it had. */
  async boot() {
    const file = join(this.dir, "config.json");
    writeFileSync(
      file,
      JSON.stringify({
        dataDir: this.data,
        sandboxing: { defaultProvider: process.env.PARAWORK_TEST_PLACE ?? "local" },
        ...this.config,
        server: { listen: this.listen, ...this.config.server },
        projects: { allowedRoots: [this.dir], allowFileUrls: true, ...this.config.projects },
      }),
    );
    let link;
    const first = !existsSync(join(this.data, "parawork.db"));
    const p = await listening(
      join(root, "bin/parawork"),
      ["serve", "--config", file],
      { env: { ...process.env, NO_COLOR: "1" } },
      (line) => {
        link ??= line.match(/https?:\S*\/setup#\S+/)?.[0];
        return !first || link !== undefined;
      },
    );
    this.child = p.child;
    this.url = p.url;
    this.log = p.log;
    this.listen = new URL(p.url).host;
    if (link) this.setupLink = new URL(new URL(link).pathname + new URL(link).hash, this.url).href;
  }

  /** kill -9: nothing gets a chance to tidy up. */
  async kill() {
    this.child.kill("SIGKILL");
    await once(this.child, "exit");
  }

  /** Makes the first user by the API and keeps a token for `api`. */
  async setUp() {
    const token = new URL(this.setupLink).hash.slice(1);
    const made = await fetch(`${this.url}/api/v1/setup`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, name: "Mika", email: "mika@example.com", password, team: "Harbour" }),
    });
    if (made.status !== 201) throw new Error(`setup: ${made.status} ${await made.text()}`);
    await this.takeToken();
  }

  /** Signs in and makes an API token. */
  async takeToken() {
    const login = await fetch(`${this.url}/api/v1/login`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ email: "mika@example.com", password }),
    });
    if (!login.ok) throw new Error(`login: ${login.status} ${await login.text()}`);
    const cookie = login.headers
      .getSetCookie()
      .map((c) => c.split(";")[0])
      .join("; ");
    const t = await fetch(`${this.url}/api/v1/me/tokens`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Cookie: cookie },
      body: JSON.stringify({ name: "e2e" }),
    });
    if (t.status !== 201) throw new Error(`token: ${t.status} ${await t.text()}`);
    this.token = (await t.json()).value;
    this.team = (await this.api("GET", "/teams")).items[0].slug;
  }

  /** takeToken, the first time only: for an instance whose first user was made through the screen. */
  async takeTokenOnce() {
    if (!this.token) await this.takeToken();
  }

  async raw(method, path, body) {
    return fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }

  async api(method, path, body) {
    const r = await this.raw(method, path, body);
    const text = await r.text();
    if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** Everything a session has printed, as text. */
  async output(sessionId) {
    const r = await this.raw("GET", `/sessions/${sessionId}/output?from=0&limit=1000000`);
    return r.text();
  }

  /** A sample project and a ready workspace in it. */
  async workspace(name = "First work") {
    const project = await this.api("POST", `/teams/${this.team}/projects`, { source: { kind: "sample" } });
    await until(
      `project ${project.id} ready`,
      async () => (await this.api("GET", `/projects/${project.id}`)).state === "ready",
    );
    return this.newWorkspace(project.id, name);
  }

  async newWorkspace(projectId, name) {
    const made = await this.api("POST", `/teams/${this.team}/workspaces`, { project_id: projectId, name });
    return until(`workspace ${made.key} ready`, async () => {
      const ws = await this.api("GET", `/workspaces/${made.id}`);
      if (ws.state === "failed") throw new Error(`workspace failed: ${ws.state_reason}`);
      return ws.state === "ready" && ws;
    });
  }

  /** Ends everything it started: sandboxes, server, data. */
  async stop() {
    if (this.token && this.child.exitCode === null) {
      const list = await this.api("GET", `/teams/${this.team}/workspaces?show=all&limit=200`).catch(() => ({
        items: [],
      }));
      for (const ws of list.items) await this.raw("POST", `/workspaces/${ws.id}/destroy-sandbox`).catch(() => {});
    }
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await once(this.child, "exit");
    }
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Waits until `probe` answers something truthy, and returns it. */
export async function until(what, probe, ms = 120_000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      const v = await probe();
      if (v) return v;
    } catch (e) {
      last = e;
      if (/failed:/.test(e.message)) throw e;
    }
    if (Date.now() > end) throw new Error(`waited ${ms} ms for: ${what}${last ? ` (${last.message})` : ""}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

/** The scripted model server. */
export const modelServer = () => built("modelserver");

/** An identity provider and a stand-in for GitHub: tests register people and clients at /test/person and /test/client. */
export async function issuer() {
  const p = await built("issuer");
  const tell = async (what, body) => {
    const r = await fetch(`${p.url}/test/${what}`, { method: "POST", body: JSON.stringify(body) });
    if (!r.ok) throw new Error(`issuer: ${r.status} ${await r.text()}`);
  };
  return { ...p, tell, knows: (person) => tell("person", person), serves: (client) => tell("client", client) };
}

/** The test Stripe; tell makes it do things: see testing/teststripe. */
export async function stripe() {
  const p = await built("stripe");
  const tell = async (what, body = {}) => {
    const r = await fetch(`${p.url}/test/${what}`, { method: "POST", body: JSON.stringify(body) });
    if (!r.ok) throw new Error(`stripe: ${r.status} ${await r.text()}`);
  };
  const objects = async (kind) => (await fetch(`${p.url}/test/objects?kind=${kind}`)).json();
  return { ...p, tell, objects };
}

/** Forges with git behind them; tell makes one, or has something happen there: see testing/e2e/forge. */
export async function forges() {
  const p = await built("forge");
  const tell = async (what, body = {}) => {
    const r = await fetch(`${p.url}/test/${what}`, { method: "POST", body: JSON.stringify(body) });
    if (!r.ok) throw new Error(`forge: ${r.status} ${await r.text()}`);
    return r.json();
  };
  return { ...p, tell };
}

/** Builds and starts a program of e2e. */
async function built(name) {
  const bin = join(scratch, name);
  mkdirSync(scratch, { recursive: true });
  const build = spawn("go", ["build", "-o", bin, `./testing/e2e/${name}`], { cwd: root, stdio: "inherit" });
  const [code] = await once(build, "exit");
  if (code !== 0) throw new Error(`${name} did not build`);
  const p = await listening(bin, [], {});
  return { url: p.url, stop: () => p.child.kill() };
}

/** The path of an agent's CLI installed for the tests, or undefined. */
export function agentCli(name) {
  const p = join(root, ".cache/agents/node_modules/.bin", name);
  return existsSync(p) ? p : undefined;
}
