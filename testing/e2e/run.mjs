// Runs the test files, those named or all, three at a time, and a file that failed once again, alone: `node run.mjs [file...]`.
// A file that fails and then passes does not refuse a build, but it is a bug, and is named at the end.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const mayFail = 6; // with more than these something is broken, and a second run would only take time
// Most of its time a file waits for a server, an agent or a browser.
const atOnce = availableParallelism() > 1 ? 3 : 1;
// The longest ones begin first, so that at the end no one of them runs alone.
const long = ["screens", "cloud-states", "answer", "machine-states", "conversation"];
const here = dirname(fileURLToPath(import.meta.url));
const named = process.argv.slice(2);
const isLong = (file) => long.includes(file.replace(".test.mjs", ""));
const found = readdirSync(join(here, "tests")).filter((f) => f.endsWith(".test.mjs")).sort();
const all = named.length > 0 ? named : [...found.filter(isLong), ...found.filter((f) => !isLong(f))].map((f) => join("tests", f));

/** Runs a file and prints what it said once it has ended, so that two do not mix. */
function passes(file) {
  return new Promise((resolve, reject) => {
    const started = Date.now();
    const child = spawn(process.execPath, ["--test", "--test-reporter=spec", "--test-timeout=600000", file], { cwd: here, stdio: ["ignore", "pipe", "pipe"] });
    const said = [];
    child.stdout.on("data", (d) => said.push(d));
    child.stderr.on("data", (d) => said.push(d));
    child.on("error", reject);
    child.on("close", (status) => {
      console.log(`\n== ${file} (${Math.round((Date.now() - started) / 1000)} s)`);
      process.stdout.write(Buffer.concat(said));
      resolve(status === 0);
    });
  });
}

/** The files that fail, at most so many at a time. */
async function failing(files, most) {
  const failed = [];
  const queue = [...files];
  const work = async () => {
    for (let file = queue.shift(); file; file = queue.shift()) if (!(await passes(file))) failed.push(file);
  };
  await Promise.all(Array.from({ length: most }, work));
  return failed.sort();
}

const first = await failing(all, atOnce);
if (first.length > 0) console.log(`\n!!! failed: ${first.join(", ")}`);
const again = first.length > mayFail ? first : await failing(first, 1);
const flaky = first.filter((file) => !again.includes(file));
console.log(`\n${all.length} files, ${all.length - first.length} passed at once`);
if (flaky.length > 0) console.log("!!! Each of these is a bug to fix; its output is above.");
for (const file of flaky) console.log(`FLAKY: failed first, passed when run again: ${file}`);
for (const file of again) console.log(`FAILED: ${file}`);
process.exit(again.length > 0 ? 1 : 0);
