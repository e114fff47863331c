import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server the dev server passes API calls and sockets on to.
const server = process.env.PARAWORK_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no data: fonts
    chunkSizeWarningLimit: 600,
    modulePreload: { polyfill: false }, // the polyfill would be an inline script
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // Few files that rarely change: what every screen needs, the terminal, and its WebGL renderer, which loads on its own.
        codeSplitting: {
          groups: [
            { name: "webgl", test: /@xterm[\\/]addon-webgl/ },
            { name: "novnc", test: /@novnc[\\/]novnc/ },
            { name: "terminal", test: /node_modules[\\/]@xterm[\\/]/ },
            {
              name: "vendor",
              test: /node_modules[\\/](?:(?:react|react-dom|scheduler|openapi-fetch|use-sync-external-store)[\\/]|@tanstack[\\/](?!react-virtual|virtual-core))/,
            },
            {
              name: "kit",
              test: /src[\\/](kit(?![\\/](more-icons|combobox|chip|divider|drag|use-media|field|dialog|menu-parts|floating|toaster|confirmer))|state|format|api|keys|net)[\\/]/,
            },
            // What floats over the page: it loads behind the first paint. It stands last: a group takes along what it imports.
            {
              name: "overlay",
              test: /node_modules[\\/](radix-ui|@radix-ui|@floating-ui|aria-hidden|react-remove-scroll|react-style-singleton|use-callback-ref|use-sidecar|get-nonce|tslib)|src[\\/]kit[\\/](dialog|menu-parts|floating|toaster|confirmer)/,
            },
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
