// npm run messages: brings the catalogues up to date with the source. With --check it changes nothing, and fails when a
// catalogue is stale or not complete, or when words for people stand outside of it.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compileMessage } from "@lingui/message-utils/compileMessage";
import { hasMacro, LANGUAGES, po, transform } from "./lingui.mjs";
import { find } from "./words.mjs";

const src = join(dirname(fileURLToPath(import.meta.url)), "..", "src");
const check = process.argv.includes("--check");
const problems = [];

const messages = new Map();
for (const file of readdirSync(src, { recursive: true }).sort()) {
  if (!/\.tsx?$/.test(file) || /\.test\.|\.d\.ts$|\.worker\.ts$|^language\//.test(file)) continue;
  const code = readFileSync(join(src, file), "utf8");
  if (check) {
    const { strings, wraps, byHand } = find(code, file);
    for (const s of strings) problems.push(`src/${file}:${s.node.loc.start.line}: not in the catalogue: ${s.text}`);
    for (const w of wraps) problems.push(`src/${file}:${w.first.loc.start.line}: text outside of <Trans>`);
    for (const [line, what] of byHand) problems.push(`src/${file}:${line}: ${what}`);
  }
  if (!hasMacro(code)) continue;
  const collect = ({ id, message, comment, placeholders }) => {
    // Where it stands first says enough.
    if (!messages.has(id))
      messages.set(id, { message, placeholders, comments: comment ? [comment] : [], origin: [[`src/${file}`]] });
  };
  await transform(code, file, { collect });
}

for (const language of LANGUAGES) {
  const file = join(src, "language", `${language}.po`);
  const old = readFileSync(file, "utf8");
  const about = { locale: language, sourceLocale: "en", filename: file, existing: old };
  const known = await po.parse(old, about);
  const next = {};
  for (const [id, m] of messages) next[id] = { ...m, translation: known[id]?.translation ?? "" };
  const text = await po.serialize(next, about);
  if (check) {
    if (text !== old) problems.push(`src/language/${language}.po is not up to date: run npm run messages`);
  } else writeFileSync(file, text);
  let empty = 0;
  const lacking = [];
  for (const { message, translation } of Object.values(next)) {
    if (!translation) {
      empty++;
      lacking.push(`src/language/${language}.po has no words for: ${message}`);
    } else if (values(message) !== values(translation)) {
      problems.push(`src/language/${language}.po has other values or elements than: ${message}`);
    }
  }
  if (check) problems.push(...lacking);
  if (!check) process.stdout.write(`    ${language}: ${messages.size} messages, ${empty} without words\n`);
}

if (problems.length > 0) {
  const shown = problems.slice(0, 40);
  if (problems.length > shown.length) shown.push(`and ${problems.length - shown.length} more`);
  console.error(`messages:\n  ${shown.join("\n  ")}`);
  process.exit(1);
}
if (check) console.log(`    ${messages.size} messages, no words outside of the catalogue`);

/** The names of the values and elements in a message, to compare those of two. */
function values(message) {
  const found = new Set(message.match(/<\/?\d+\/?>/g));
  const visit = (tokens) => {
    for (const t of tokens) {
      if (!Array.isArray(t)) continue;
      found.add(t[0]);
      for (const inner of Object.values(t[2] ?? {})) if (Array.isArray(inner)) visit(inner);
    }
  };
  try {
    visit(compileMessage(message));
  } catch (error) {
    return String(error);
  }
  return [...found].sort().join(" ");
}
