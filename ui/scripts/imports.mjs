// Fails when a folder of src imports one that stands above it in README.md's table, when files import each other in a circle, or when a worker
// is not named as one.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const src = join(root, "src");
const order = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/^\| `([a-z]+)` \|/gm)].map((m) => m[1]);
const problems = [];

const all = readdirSync(src, { recursive: true, withFileTypes: true })
  .filter((e) => e.isFile())
  .map((e) => posix.join(e.parentPath.slice(src.length + 1), e.name));
const files = new Set(all.filter((f) => /\.tsx?$/.test(f)));
const folderOf = (file) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : "");
const folders = new Set(all.map(folderOf).filter(Boolean));
for (const f of folders) if (!order.includes(f)) problems.push(`src/${f} has no row in README.md's table of folders`);
for (const f of order)
  if (!folders.has(f)) problems.push(`README.md's table of folders has src/${f}, which is not there`);

const imports = new Map([...files].map((f) => [f, importsOf(f)]));
for (const [file, targets] of imports) {
  const from = folderOf(file);
  for (const to of targets) {
    // main.tsx and start.tsx stand above all folders.
    if (from && order.indexOf(folderOf(to)) < order.indexOf(from)) {
      problems.push(`src/${file} imports src/${to}: ${folderOf(to)} stands above ${from}`);
    }
  }
}
for (const circle of circles()) problems.push(`import circle: ${circle.join(" -> ")}`);

if (problems.length > 0) {
  console.error(`imports:\n  ${problems.join("\n  ")}`);
  process.exit(1);
}
console.log(`    ${files.size} files in ${folders.size} folders, no import goes up or round`);

/** The files of src that a file imports: as values or types, at once or lazily, or as a worker. */
function importsOf(file) {
  const text = readFileSync(join(src, file), "utf8");
  const found = new Set();
  for (const m of text.matchAll(
    /(?:\bfrom|\bimport|\bimport\()\s*"([^"]+)"|new URL\("(\.[^"]+)", import\.meta\.url\)/g,
  )) {
    const name = (m[1] ?? m[2]).replace(/\?.*/, "");
    const path = name.startsWith("@/")
      ? name.slice(2)
      : name.startsWith(".")
        ? posix.join(posix.dirname(file), name)
        : undefined;
    if (path === undefined) continue; // a package
    const target = [path, `${path}.ts`, `${path}.tsx`, `${path}.d.ts`].find((p) => files.has(p));
    // Scripts are sent without the content security policy, which holds a worker: the server knows those by their names.
    if (m[2] && !/worker/.test(m[2])) problems.push(`src/${file}: name the worker ${name} so, see ui/handler.go`);
    if (target) found.add(target);
    else if (path.startsWith("../") ? !existsSync(join(src, path)) : !/\.(css|po)$/.test(path))
      problems.push(`src/${file} imports ${name}, which is not there`);
  }
  return found;
}

/** One circle for each file that closes one, found depth first. */
function circles() {
  const done = new Set();
  const path = [];
  const found = [];
  const visit = (file) => {
    const at = path.indexOf(file);
    if (at >= 0) return void found.push([...path.slice(at), file]);
    if (done.has(file)) return;
    path.push(file);
    for (const next of imports.get(file)) visit(next);
    path.pop();
    done.add(file);
  };
  for (const file of files) visit(file);
  return found;
}
