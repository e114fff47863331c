// Asserts what the app may weigh. Sizes are gzip -9, in KB of 1,000 bytes, as the browser gets them.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
if (!existsSync(join(dist, "index.html"))) {
  console.log("size budget: not built, skipped");
  process.exit(0);
}

// What a page sends in all, fonts and answers included, is measured in a browser: testing/e2e/tests/wire.test.mjs.
const budgets = [
  [/^(index|base|libraries|shell)-.*\.js$/, "main", 160], // together
  [/^login-(?!screen).*\.js$/, "sign-in", 5],
  [/^work-.*\.js$/, "workspace", 96],
  [/^xterm-.*\.js$/, "terminal", 110],
  [/^webgl-.*\.js$/, "webgl", 33],
  [/^code-.*\.js$/, "editor", 110],
  [/^novnc-.*\.js$/, "desktop", 70],
  [/^de-.*\.js$/, "German", 90], // loaded by who reads German
  [/\.js$/, "other", 60],
];
// What must not come with the first paint: a stray import of it would weigh on every page.
const SIGN_IN = /from"\.\/(libraries|shell)-/;
const LAZY = /from"\.\/(overlay|work|xterm|webgl|code|novnc)-/;
// All assets, which the server embeds. Most are loaded lazily: the panels of tasks, artifacts, subagents, checkpoints and tools among them.
const RAW_MB = 3.8;
const problems = [];
let raw = 0;
const rows = [];
for (const name of readdirSync(join(dist, "assets"))) {
  if (/\.(br|gz)$/.test(name)) continue;
  const file = join(dist, "assets", name);
  raw += statSync(file).size;
  const budget = budgets.find(([pattern]) => pattern.test(name));
  if (!budget) continue;
  const code = readFileSync(file);
  const kb = gzipSync(code, { level: 9 }).length / 1000;
  const early = budget[1] === "main" && LAZY.exec(code.toString())?.[1];
  if (early) problems.push(`${name} imports ${early}: import it lazily`);
  if (/^(login-(?!screen)|base-)/.test(name) && SIGN_IN.test(code.toString()))
    problems.push(`${name} imports the app, without which one signs in`);
  const known = budget[1] === "main" ? rows.find((r) => r[1] === "main") : undefined;
  if (known) known[0] += kb;
  else rows.push([kb, budget[1] === "main" ? "main" : name, budget[2]]);
}
for (const [kb, name, max] of rows) {
  if (kb > max) problems.push(`${name}: ${kb.toFixed(1)} KB gzip, budget is ${max}`);
}
rows.sort((a, b) => b[0] - a[0]);
for (const [kb, name, max] of rows.slice(0, process.argv.includes("--all") ? 99 : 4)) {
  console.log(`    ${kb.toFixed(1).padStart(6)} KB of ${String(max).padStart(3)}  ${name}`);
}
console.log(`    ${(raw / 1e6).toFixed(2)} MB raw of ${RAW_MB}`);
if (raw > RAW_MB * 1e6) problems.push(`assets: ${(raw / 1e6).toFixed(2)} MB raw, budget is ${RAW_MB} MB`);
if (problems.length > 0) {
  console.error(`size budget exceeded:\n  ${problems.join("\n  ")}`);
  process.exit(1);
}
