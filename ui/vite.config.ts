import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import lingui from "./scripts/lingui.mjs";

// The server the dev server passes API calls and sockets on to.
const server = process.env.PARAWORK_URL ?? "http://127.0.0.1:8080";

/**
 * The groups of modules that a first paint needs together, in the order of the pages: a module belongs to the first that imports it. What is
 * listed is the page and the parts that it loads lazily but shows at once.
 */
const SHOWN: Record<string, string[]> = {
  shell: ["start"],
  side: ["app/sidebar"],
  overlay: ["kit/menu-parts", "kit/floating"],
  work: ["workspaces/workspace-screen", "changes/tab"],
};

interface Graph {
  getModuleInfo: (id: string) => { importedIds: string[] } | null;
}

/** The group of a module, by who imports it without waiting. */
function shownWith(id: string, graph: Graph): string | null {
  shown ??= reached(graph);
  return shown.get(id) ?? null;
}

let shown: Map<string, string> | undefined;

function reached(graph: Graph): Map<string, string> {
  const found = new Map<string, string>();
  for (const [group, roots] of Object.entries(SHOWN)) {
    const queue = roots.map((r) => {
      const file = fileURLToPath(new URL(`./src/${r}.tsx`, import.meta.url));
      if (!graph.getModuleInfo(file)) throw new Error(`vite.config.ts: no module ${file}`);
      return file;
    });
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
      if (found.has(id)) continue;
      found.set(id, group);
      queue.push(...(graph.getModuleInfo(id)?.importedIds ?? []));
    }
  }
  return found;
}

/** Lets the browser fetch what start.tsx needs while main.tsx gets the language. */
const preload: Plugin = {
  name: "preload",
  transformIndexHtml: {
    order: "post",
    handler(_html, { bundle, chunk: entry, path }) {
      if (path !== "/index.html") return []; // the sign-in page does without the app
      const chunks = Object.values(bundle ?? {}).filter((c) => c.type === "chunk");
      const names = new Set<string>();
      const add = (name: string) => {
        if (names.has(name)) return;
        names.add(name);
        chunks.find((c) => c.fileName === name)?.imports.forEach(add);
      };
      entry?.imports.forEach(add); // Vite lists these itself
      const listed = new Set(names);
      for (const c of chunks) if (c.facadeModuleId?.endsWith("/src/start.tsx")) add(c.fileName);
      return [...names]
        .filter((name) => !listed.has(name) && name !== entry?.fileName)
        .map((name) => ({ tag: "link", attrs: { rel: "modulepreload", crossorigin: true, href: `/${name}` } }));
    },
  },
};

/** Tells the service worker which files a page needs to open, and the version of the build, which their names carry. */
const shellFiles: Plugin = {
  name: "shell-files",
  apply: "build",
  async writeBundle({ dir }, bundle) {
    const worker = join(dir!, "sw.js");
    const linked = ["index.html", "login.html"].flatMap((name) => {
      const page = bundle[name];
      if (page?.type !== "asset") throw new Error(`vite.config.ts: no ${name}`);
      return [...String(page.source).matchAll(/(?:href|src)="(\/[^"]+)"/g)].map((m) => m[1]!);
    });
    const shown = Object.keys(bundle).filter((n) =>
      /^assets\/(sidebar|side|inter-basic|mono-basic)-.*\.(js|woff2)$/.test(n),
    );
    const files = ["/", "/login", ...new Set([...linked, ...shown.map((n) => `/${n}`)])];
    const version = createHash("sha256").update(Object.keys(bundle).sort().join()).digest("hex").slice(0, 16);
    const code = await readFile(worker, "utf8");
    const filled = code.replace('{ version: "", files: [] }', JSON.stringify({ version, files }));
    if (filled === code) throw new Error("vite.config.ts: public/sw.js has no place for its files");
    await writeFile(worker, filled);
  },
};

/** Serves the sign-in page where the server does, also in development. */
const signIn: Plugin = {
  name: "sign-in",
  configureServer(dev) {
    dev.middlewares.use((request, _response, next) => {
      if (/^\/login(\?(?!.*\bstep=)|$)/.test(request.url ?? "")) request.url = "/login.html";
      next();
    });
  },
};

export default defineConfig({
  plugins: [lingui(), react(), tailwindcss(), preload, shellFiles, signIn],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no data: fonts
    chunkSizeWarningLimit: 600,
    modulePreload: { polyfill: false }, // the polyfill would be an inline script
    reportCompressedSize: false,
    rolldownOptions: {
      input: ["index.html", "login.html"],
      output: {
        // Few files: each costs a request. Libraries change rarely and are cached on their own; ours are joined by what is shown together.
        codeSplitting: {
          groups: [
            { name: "webgl", test: /@xterm[\\/]addon-webgl/, priority: 9 },
            { name: "novnc", test: /@novnc[\\/]novnc/, priority: 9 },
            { name: "xterm", test: /node_modules[\\/]@xterm[\\/](?!addon-search)/, priority: 8 },
            // What the sign-in page shares with the app. It must not bring along modules that speak as soon as they are loaded.
            {
              name: "base",
              test: /preload-helper|rolldown[\\/]runtime|@lingui[\\/]core|src[\\/](language[\\/]\w+\.ts|api[\\/](bare|problem)\.ts|kit[\\/](classes|cx)\.ts|state[\\/]known\.ts|signin[\\/]next\.ts)$/,
              priority: 8,
            },
            {
              name: "libraries",
              test: /node_modules[\\/](react|react-dom|scheduler|@lingui|openapi-fetch|use-sync-external-store|@tanstack[\\/](react-(router|store|query)|(router|query)-core|history|store))[\\/]/,
              priority: 7,
            },
            ...Object.keys(SHOWN).map((group, i) => ({
              name: (id: string, graph: Graph) => (shownWith(id, graph) === group ? group : null),
              debugName: group,
              priority: 6 - i, // a group takes along what it imports, so that those shown first choose first
            })),
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  server: {
    proxy: {
      "/api": { target: server, ws: true, changeOrigin: true, headers: { origin: server } },
      "^/(oauth|mcp|\\.well-known)(/|$)": { target: server, changeOrigin: true, headers: { origin: server } },
    },
  },
});
