import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import lingui from "./scripts/lingui.mjs";

export default defineConfig({
  plugins: [lingui()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node", testTimeout: 60_000 },
});
