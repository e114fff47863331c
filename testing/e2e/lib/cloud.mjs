// The stand-in for E2B as a program of its own: real sandboxes with real processes, over real HTTP.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { root } from "./instance.mjs";

/** Whether sandboxes of the stand-in can be made here. */
export const haveCloud = spawnSync("bwrap", ["--unshare-user", "--ro-bind", "/", "/", "true"]).status === 0;

export class Cloud {
  /** Starts one. `args` are its own, such as "-concurrent", "1". */
  static async start(...args) {
    mkdirSync(join(root, ".cache/e2e"), { recursive: true });
    const bin = join(root, ".cache/e2e/e2btest");
    const built = spawnSync("go", ["build", "-o", bin, "./executors/e2b/e2btest/cmd"], { cwd: root, stdio: "inherit" });
    if (built.status !== 0) throw new Error("the stand-in for E2B did not build");
    const c = new Cloud();
    c.bin = bin;
    c.args = args;
    await c.boot();
    return c;
  }

  async boot() {
    this.child = spawn(this.bin, this.args, { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.child.stdout });
    const [first] = await Promise.race([
      once(lines, "line"),
      once(this.child, "exit").then(([code]) => {
        throw new Error(`the stand-in for E2B ended with ${code}`);
      }),
    ]);
    Object.assign(this, JSON.parse(first)); // api_url, sandbox_url, api_key
  }

  /** What config.json says of it. */
  get config() {
    return { apiKey: this.api_key, apiUrl: this.api_url, sandboxUrl: this.sandbox_url };
  }

  /** The sandboxes there are, running and paused. */
  async sandboxes() {
    const r = await fetch(`${this.api_url}/v2/sandboxes?state=running,paused`, { headers: { "X-API-Key": this.api_key } });
    if (!r.ok) throw new Error(`listing sandboxes: ${r.status} ${await r.text()}`);
    return r.json();
  }

  async stop() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill("SIGTERM");
    await once(this.child, "exit");
  }
}
