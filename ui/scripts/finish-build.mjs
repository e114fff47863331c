// After the build: the licences of everything that is shipped, and a .br and .gz beside every text file.
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const dist = join(root, "dist");

writeFileSync(join(dist, "THIRD_PARTY_LICENSES.txt"), licences());

let files = 0;
for (const file of walk(dist)) {
  if (!/\.(html|js|css|svg|txt|json|webmanifest)$/.test(file)) continue;
  const raw = readFileSync(file);
  if (raw.length < 512) continue;
  const br = brotliCompressSync(raw, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: raw.length },
  });
  writeFileSync(`${file}.br`, br);
  writeFileSync(`${file}.gz`, gzipSync(raw, { level: 9 }));
  files++;
}
console.log(`    ${files} files compressed`);

function* walk(dir) {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    if (statSync(path).isDirectory()) yield* walk(path);
    else yield path;
  }
}

/** The packages that are part of the build, which is everything below "dependencies" as the lockfile has it, and the fonts beside the styles. */
function licences() {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const seen = new Map();
  const queue = Object.keys(lock[""].dependencies).map((name) => ["", name]);
  while (queue.length > 0) {
    const [from, name] = queue.pop();
    const key = resolve(lock, from, name);
    if (!key || seen.has(key)) continue;
    seen.set(key, lock[key]);
    for (const dep of Object.keys(lock[key].dependencies ?? {})) queue.push([key, dep]);
  }
  const out = ["The web app of Parawork contains the packages below, each under its own licence.\n"];
  for (const [key, info] of [...seen].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const dir = join(root, key);
    if (!existsSync(dir)) continue;
    const file = readdirSync(dir).find((n) => /^(licen[cs]e|copying)/i.test(n));
    const text = file ? readFileSync(join(dir, file), "utf8").trim() : `Licence: ${info.license ?? "see the package"}`;
    out.push(
      "-".repeat(80),
      `${key.replace(/^.*node_modules\//, "")} ${info.version} (${info.license ?? "?"})\n`,
      text,
      "",
    );
  }
  out.push("-".repeat(80), readFileSync(join(root, "src/styles/fonts/LICENSE.txt"), "utf8"));
  return out.join("\n");
}

function resolve(lock, from, name) {
  for (let base = from; ; base = base.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, "")) {
    const key = base ? `${base}/node_modules/${name}` : `node_modules/${name}`;
    if (lock[key]) return key;
    if (!base) return undefined;
  }
}
