// The Preview tab of a workspace: a development server's page in a frame, on an origin of its own and below a path.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn, unbatched } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

// Like Vite: assets and the socket for reloading are at absolute paths, modules import from them.
const SERVER = `
const { createHash } = require("node:crypto");
const files = {
  "/": ["text/html", '<!doctype html><html lang="en"><head><title>Shop</title><link rel="stylesheet" href="/assets/a.css"><script type="module" src="/src/main.js"></script></head><body><h1>Shop</h1><p id="said"></p><p id="socket"></p><a href="/about">About</a></body></html>'],
  "/about": ["text/html", "<!doctype html><title>About</title><h1>About the shop</h1>"],
  "/assets/a.css": ["text/css", "h1 { color: rgb(1, 2, 3) }"],
  "/src/main.js": ["text/javascript", 'import { word } from "/src/word.js"; said.textContent = word + (await (await fetch("/api")).text()); localStorage.setItem("a", "1"); const s = new WebSocket("ws://" + location.host + "/hmr"); s.onmessage = (m) => { socket.textContent = m.data }; console.error("a broken thing");'],
  "/src/word.js": ["text/javascript", 'export const word = "imported and "'],
  "/api": ["text/plain", "fetched"],
};
require("node:http").createServer((q, a) => {
  const [type, body] = files[q.url.split("?")[0]] ?? [];
  a.writeHead(body ? 200 : 404, { "Content-Type": type ?? "text/plain", "X-Frame-Options": "DENY" });
  a.end(body);
}).on("upgrade", (q, s) => {
  const key = createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  s.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + key + "\\r\\n\\r\\n");
  s.write(Buffer.concat([Buffer.from([0x81, 9]), Buffer.from("connected")]));
}).listen(PORT, "127.0.0.1");`;

const freePort = () =>
  new Promise((ok) => {
    const s = createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => ok(port));
    });
  });

/** Shares the port by a link, which somebody without a login opens, also after a crash of the server, until it is revoked. */
async function shared(page, instance, port) {
  await page.getByRole("button", { name: "Share", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Share port ${port}` });
  await dialog.getByText("No links to this port.").waitFor();
  await dialog.getByRole("textbox", { name: "Name" }).fill("For Bo");
  await dialog.getByRole("combobox", { name: "Expires" }).selectOption("in a day");
  await dialog.getByRole("button", { name: "Create link" }).click();
  const link = await dialog.locator("code").innerText();
  const entry = dialog.getByRole("listitem").filter({ hasText: "For Bo" });
  assert.match(await entry.innerText(), /ends in 2[34] h/);
  assert.deepEqual(await axe(page, ["iframe"]), [], "accessibility of the dialog");
  const stranger = await newPage(page.context().browser());
  const opens = async () => {
    await stranger.context().clearCookies();
    await stranger.goto(link);
    await stranger.getByText("imported and fetched").waitFor();
  };
  await opens();
  await instance.kill();
  await instance.boot();
  // The server connects to its sandboxes again; a link wakes none.
  await page.waitForResponse(async (r) => r.url().endsWith("/sandbox") && r.ok() && (await r.json()).state === "running");
  await opens();
  await entry.getByRole("button", { name: "Revoke the link: For Bo" }).click();
  await dialog.getByText("No links to this port.").waitFor();
  await stranger.goto(link);
  await stranger.getByText("This link was used before, is too old or was revoked.").waitFor();
  await stranger.context().close();
}

describe("preview", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let browser;
  before(async () => {
    if (haveChromium) browser = await launch();
  });
  after(() => browser?.close());

  for (const [where, config] of [
    ["on an origin of its own", {}],
    ["below a path", { server: { listen: "0.0.0.0:0", allowInsecureHttp: true }, preview: { listen: "0.0.0.0:0" } }],
  ])
    test(`a development server is shown ${where}`, async () => {
      const instance = await Instance.start(config);
      try {
        instance.url = `http://127.0.0.1:${new URL(instance.url).port}`;
        await instance.setUp();
        const ws = await instance.workspace("A shop");
        const port = await freePort();
        const page = await newPage(browser);
        await unbatched(page);
        await signIn(page, instance, password);
        await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=timeline`);
        // The screen learns that the sandbox runs, before a port is open.
        const seen = page.waitForResponse(async (r) => r.url().endsWith("/sandbox") && r.ok() && (await r.json()).state === "running");
        await instance.api("POST", `/workspaces/${ws.id}/exec`, { argv: ["true"], timeout_ms: 60_000 });
        await seen;
        await page.getByRole("link", { name: "Timeline" }).focus();
        await instance.api("POST", `/workspaces/${ws.id}/exec`, {
          argv: ["node", "-e", SERVER.replace("PORT", String(port))],
          background: true,
          timeout_ms: 600_000,
        });
        await page.getByText(`Port ${port} opened`, { exact: true }).waitFor();
        assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Timeline", "the offer takes no focus");
        await page.getByRole("button", { name: "Preview" }).click();
        const frame = page.frameLocator(`iframe[title="Port ${port}"]`);
        await frame.getByText("imported and fetched").waitFor();
        await frame.getByText("connected").waitFor();
        assert.equal(await frame.getByRole("heading").evaluate((h) => getComputedStyle(h).color), "rgb(1, 2, 3)");
        await page.getByText("1 error in the console").click();
        await page.getByText("a broken thing").waitFor();
        const field = page.getByRole("textbox", { name: "Path" });
        await field.fill("/about");
        await field.press("Enter");
        await frame.getByText("About the shop").waitFor();
        await page.getByRole("button", { name: "Back" }).click();
        await frame.getByRole("link", { name: "About" }).click();
        await frame.getByText("About the shop").waitFor();
        assert.equal(await field.inputValue(), "/about", "the address follows links");
        await page.getByRole("button", { name: "Phone" }).click();
        assert.equal(await page.locator("iframe").evaluate((f) => f.clientWidth), 390);
        assert.deepEqual(await axe(page, ["iframe"]), [], "accessibility");
        await shot(page, `preview-${config.preview ? "path" : "origin"}`);
        await page.setViewportSize({ width: 390, height: 844 });
        await frame.getByText("About the shop").waitFor();
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it fits a phone");
        await page.setViewportSize({ width: 1440, height: 900 });
        if (config.preview) return;
        // The agent stands on the left.
        await page.getByRole("region", { name: "Agent" }).waitFor();
        await page.getByRole("button", { name: "Full", exact: true }).click();
        await page.waitForFunction(() => {
          const all = [...document.querySelectorAll("iframe")].map((f) => f.getBoundingClientRect());
          return all.length === 1 && all[0].left >= 700 && all[0].right <= 1440 && all[0].width >= 500;
        });
        await frame.getByText("About the shop").waitFor();
        await shot(page, "preview-beside");
        assert.deepEqual(await axe(page, ["iframe"]), [], "accessibility beside the terminal");
        await shared(page, instance, port);
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: "Close Preview" }).click();
        await page.locator("iframe").waitFor({ state: "detached" });
      } finally {
        await instance.stop();
      }
    });
});
