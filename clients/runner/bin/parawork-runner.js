#!/usr/bin/env node
// Downloads the runner that a Parawork server offers for this machine, once for each version, and runs it.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { chmod, mkdir, readFile, rename, rm } from "node:fs/promises";
import { arch, homedir, platform } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const fail = (words) => {
  console.error(`parawork-runner: ${words}`);
  process.exit(1);
};

/** The value of a flag, written --name VALUE or --name=VALUE. */
function flag(name, args) {
  const at = args.findIndex((a) => a === `--${name}` || a === `-${name}`);
  return at >= 0 ? args[at + 1] : args.find((a) => a.startsWith(`--${name}=`))?.slice(name.length + 3);
}

const args = process.argv.slice(2);
const server = (flag("server", args) ?? process.env.PARAWORK_SERVER ?? "").replace(/\/+$/, "");
if (!/^https?:\/\//.test(server))
  fail("say the server: --server https://parawork.example.com, or PARAWORK_SERVER in the environment.");
const os = { linux: "linux", darwin: "darwin" }[platform()];
const cpu = { x64: "amd64", arm64: "arm64" }[arch()];
if (!os) fail("there is a program for Linux and macOS. On Windows run this in WSL2.");
if (!cpu) fail(`there is no program for processors of the kind ${arch()}.`);

const api = `${server}/api/v1/runner/downloads`;
const list = await fetch(api)
  .then((r) => (r.ok ? r.json() : Promise.reject(new Error(`it answered ${r.status}`))))
  .catch((e) => fail(`${server} cannot be asked for its programs: ${e.cause?.message ?? e.message}`));
const offer = list.items?.find((o) => o.os === os && o.arch === cpu);
if (!offer?.available) fail(`${server} offers no program for this machine. ${offer?.reason ?? ""}`.trim());
if (!/^[0-9a-f]{64}$/.test(offer.sha256) || !/^[\w.-]+$/.test(offer.file)) fail(`${server} answered nonsense.`);

const sumOf = async (file) =>
  createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
const dir = join(homedir(), ".parawork", "bin");
const program = join(dir, `parawork-${offer.sha256.slice(0, 16)}`);
if ((await sumOf(program).catch(() => "")) !== offer.sha256) {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const part = `${program}.${process.pid}`;
  try {
    const r = await fetch(`${api}/${offer.file}`);
    if (!r.ok) throw new Error(`it answered ${r.status}`);
    await pipeline(Readable.fromWeb(r.body), createWriteStream(part, { mode: 0o600, flags: "wx" }));
    if ((await sumOf(part)) !== offer.sha256) throw new Error("what came is not what the server named");
    await chmod(part, 0o700);
    await rename(part, program);
  } catch (e) {
    await rm(part, { force: true });
    fail(`the program could not be downloaded: ${e.cause?.message ?? e.message}`);
  }
}

const child = spawn(program, ["runner", ...args], { stdio: "inherit" });
child.on("error", (e) => fail(`${program} does not run: ${e.message}`));
// A terminal sends Ctrl-C and its own end to the program as well; a second one would end it without waiting.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("close", (code, signal) => process.exit(signal ? 1 : code));
