// The Desktop tab: a person starts a desktop, takes over, types into a terminal on it, and an agent's tool is refused meanwhile.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const missing = ["Xvnc", "openbox", "xterm"].filter((p) => spawnSync("which", [p]).status !== 0);
const skip = !haveChromium ? "Chromium is not installed" : missing.length > 0 && `NOT TESTED: ${missing.join(", ")} not installed`;

describe("desktop", { skip }, () => {
  let instance;
  let browser;
  before(async () => {
    browser = await launch();
    instance = await Instance.start({ browser: { allowUnsandboxed: true } });
    await instance.setUp();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("a person starts it, takes over, types, and gives back", async () => {
    const ws = await instance.workspace("Try the desktop");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=desktop`);
    await page.locator("button:not([type=submit])", { hasText: /^Start$/ }).click(); // not that of a session, in the other pane
    await page.getByText("Agents have control.").waitFor();
    const field = page.getByRole("textbox", { name: /program to open/i });
    await field.fill("xterm -geometry 80x24+100+100");
    await page.getByRole("button", { name: "Open", exact: true }).click();
    const canvas = page.locator("[role=application] canvas");
    await until("the terminal is drawn", async () =>
      canvas.evaluate((c) => c.width > 500 && c.getContext("2d").getImageData(300, 300, 1, 1).data[0] > 200),
    );
    assert.deepEqual(await axe(page, []), [], "accessibility");
    const at = await canvas.boundingBox();
    const click = () => page.mouse.click(at.x + at.width * 0.23, at.y + at.height * 0.37);
    const file = join(ws.path ?? ws.folder ?? ws.worktree, "typed-by-a-person");
    await page.getByRole("button", { name: "Take control" }).click();
    await page.getByText("You have control.").waitFor();
    await click();
    await page.keyboard.type(`touch '${file}'\n`, { delay: 10 });
    await until("the command has run", async () => existsSync(file));
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "parawork desktop screenshot x.png 2>&1; echo DONE; sleep 600"], cols: 100, rows: 24 });
    await until("the agent is refused", async () => (await instance.output(s.id)).includes("DONE"));
    assert.match(await instance.output(s.id), /has taken over the desktop since/);
    await field.fill("http://example.com");
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await until("Chromium has a window", async () =>
      canvas.evaluate((c) => c.getContext("2d").getImageData(20, 200, 1, 1).data[0] > 200 || c.getContext("2d").getImageData(1200, 200, 1, 1).data[0] > 200),
    );
    await shot(page, "desktop");
    await page.emulateMedia({ colorScheme: "dark" });
    await shot(page, "desktop-dark");
    await page.emulateMedia({ colorScheme: "light" });
    await canvas.click({ position: { x: 40, y: 40 } });
    await page.keyboard.press("Control+Shift+O");
    await page.getByText("Agents have control.").waitFor();
    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=desktop`);
    await phone.getByText("2 people watch.").waitFor();
    await shot(phone, "desktop-phone");
    await page.getByRole("button", { name: "End", exact: true }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "End" }).click();
    await page.getByText("No desktop is running").waitFor();
  });
});
