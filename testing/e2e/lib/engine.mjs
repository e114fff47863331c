// A Docker engine for a test: a real dockerd of its own, with an image built from this machine's programs.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { root } from "./instance.mjs";

const has = (program) => spawnSync("which", [program]).status === 0;

/** Whether an engine can be started here. */
export const haveEngine = process.getuid?.() === 0 && ["dockerd", "containerd", "runc"].every(has);

/** Starts an engine that has these images. `host` is for DOCKER_HOST. */
export async function startEngine(...images) {
  mkdirSync(join(root, ".cache/e2e"), { recursive: true });
  const bin = join(root, ".cache/e2e/dockerd");
  const built = spawnSync("go", ["build", "-o", bin, "./testing/e2e/dockerd"], { cwd: root, stdio: "inherit" });
  if (built.status !== 0) throw new Error("the Docker engine for tests did not build");
  const child = spawn(bin, images, { stdio: ["pipe", "pipe", "inherit"] });
  const [first] = await once(createInterface({ input: child.stdout }), "line");
  const { host, reason } = JSON.parse(first);
  if (!host) throw new Error(`no Docker engine: ${reason}`);
  return {
    host,
    stop: async () => {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}
