// Lingui's macros, run over a file of the source: `t` and <Trans> become calls that carry the English text with them, taken
// apart already, so that the page needs neither an English catalogue nor a parser of messages.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformAsync, types } from "@babel/core";
import macro from "@lingui/babel-plugin-lingui-macro";
import { makeConfig } from "@lingui/conf";
import { formatter } from "@lingui/format-po";
import { compileMessage } from "@lingui/message-utils/compileMessage";

export const LANGUAGES = ["de"]; // beside English, which stands in the source

const config = makeConfig(
  {
    locales: ["en", ...LANGUAGES],
    sourceLocale: "en",
    runtimeConfigModule: { i18n: ["@/language/i18n", "i18n"], Trans: ["@/language/trans", "Trans"] },
  },
  { skipValidation: true },
);

export const po = formatter({ lineNumbers: false });
export const hasMacro = (code) => /from ["']@lingui\/(core|react)\/macro["']/.test(code);

/** A message as what the runtime fills in: plain text stays text. */
export function compiled(message) {
  const tokens = compileMessage(message);
  return tokens.every((t) => typeof t === "string") ? tokens.join("") : tokens;
}

/** Transforms a file, and collects its messages when it is given where to. */
export function transform(code, file, { collect, sourceMaps = false } = {}) {
  const parserPlugins = ["typescript", ...(/\.tsx$/.test(file) ? ["jsx"] : [])];
  return transformAsync(code, {
    filename: file,
    configFile: false,
    babelrc: false,
    sourceMaps,
    compact: false,
    parserOpts: { plugins: parserPlugins },
    plugins: [
      [macro, { linguiConfig: config, stripMessageField: false }],
      () => ({
        visitor: {
          ObjectExpression(path) {
            const { node } = path;
            const found = {};
            for (const p of node.properties) if (types.isObjectProperty(p)) found[p.key.name ?? p.key.value] = p.value;
            if (!types.isStringLiteral(found.id) || !types.isStringLiteral(found.message)) return;
            if (!node.leadingComments?.some((c) => c.value === "i18n")) return;
            collect?.({
              id: found.id.value,
              message: found.message.value,
              context: found.context?.value,
              comment: found.comment?.value,
            });
            const property = node.properties.find((p) => p.value === found.message);
            property.value = types.valueToNode(compiled(found.message.value));
            node.properties = node.properties.filter((p) => p.value !== found.comment && p.value !== found.context);
          },
        },
      }),
    ],
  });
}

// Babel takes longer than all the rest of the build: what it made of a file is kept.
const cache = fileURLToPath(new URL("../node_modules/.cache/messages", import.meta.url));
const version = readFileSync(fileURLToPath(import.meta.url));

async function cached(code, file, sourceMaps) {
  const hash = createHash("sha256").update(version).update(`${file} ${sourceMaps}\n`).update(code).digest("hex");
  const kept = join(cache, `${hash}.json`);
  try {
    return JSON.parse(readFileSync(kept, "utf8"));
  } catch {
    // not seen yet
  }
  const { code: out, map } = await transform(code, file, { sourceMaps });
  mkdirSync(cache, { recursive: true });
  writeFileSync(kept, JSON.stringify({ code: out, map }));
  return { code: out, map };
}

/** The ids of the messages in a file of src and in what it imports as values. */
async function idsOf(first) {
  const src = fileURLToPath(new URL("../src", import.meta.url));
  const ids = new Set();
  const files = new Set([first]);
  for (const name of files) {
    const code = readFileSync(join(src, name), "utf8");
    if (hasMacro(code)) await transform(code, name, { collect: ({ id }) => ids.add(id) });
    for (const [, at] of code.matchAll(/^import (?!type)[^"]*from "(\.\/[^"]+|@\/[^"]+)"/gm)) {
      const path = at.startsWith("@/") ? at.slice(2) : join(dirname(name), at);
      const found = [`${path}.ts`, `${path}.tsx`].find((p) => existsSync(join(src, p)));
      if (found) files.add(found);
    }
  }
  return ids;
}

/** The Vite plugin: macros in the source, and a language's catalogue as a module of its messages by their ids. */
export default function lingui() {
  let sourceMaps = true;
  return {
    name: "messages",
    enforce: "pre",
    configResolved(config) {
      sourceMaps = config.command === "serve" || Boolean(config.build.sourcemap);
    },
    transform: {
      filter: { id: /\.(tsx?|po|po\?signin)$/ },
      async handler(code, id) {
        if (/\.po(\?signin)?$/.test(id)) {
          const messages = {};
          const wanted = id.endsWith("?signin") ? await idsOf("signin/page.ts") : undefined;
          for (const [key, m] of Object.entries(
            await po.parse(code, { locale: null, sourceLocale: "en", filename: id }),
          ))
            if (m.translation && (wanted?.has(key) ?? true)) messages[key] = compiled(m.translation);
          return {
            code: `export default JSON.parse(${JSON.stringify(JSON.stringify(messages))})`,
            map: null,
            moduleType: "js",
          };
        }
        if (id.includes("node_modules") || !hasMacro(code)) return null;
        return cached(code, id, sourceMaps);
      },
    },
  };
}
