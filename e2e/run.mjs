// Runs the test files, those named or all, one after another, and a file that failed once again: `node run.mjs [file...]`.
// A file that fails and then passes does not refuse a build, but it is a bug, and is named at the end.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const mayFail = 3; // with more than these something is broken, and a second run would only take time
const here = dirname(fileURLToPath(import.meta.url));
const named = process.argv.slice(2);
const all = named.length > 0 ? named : readdirSync(join(here, "tests")).filter((f) => f.endsWith(".test.mjs")).sort().map((f) => join("tests", f));

/** The files that fail. */
function failing(files) {
  return files.filter((file) => {
    console.log(`\n== ${file}`);
    const { status, error, signal } = spawnSync(process.execPath, ["--test", "--test-reporter=spec", "--test-timeout=600000", file], { cwd: here, stdio: "inherit" });
    if (error) throw error;
    if (signal === "SIGINT") process.exit(130);
    return status !== 0;
  });
}

const first = failing(all);
if (first.length > 0) console.log(`\n!!! failed: ${first.join(", ")}`);
const again = first.length > mayFail ? first : failing(first);
const flaky = first.filter((file) => !again.includes(file));
console.log(`\n${all.length} files, ${all.length - first.length} passed at once`);
if (flaky.length > 0) console.log("!!! What follows is a bug to mend; what it said is above.");
for (const file of flaky) console.log(`FLAKY: failed first, passed when run again: ${file}`);
for (const file of again) console.log(`FAILED: ${file}`);
process.exit(again.length > 0 ? 1 : 0);
