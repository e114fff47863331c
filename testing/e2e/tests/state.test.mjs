// How a session's state is known, seen and corrected in the browser.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("state", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let ws;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Ask before it deletes");
    await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "printf 'Delete 12 files? [y/N] '; read x; echo gone; sleep 1000"], cols: 80, rows: 24 });
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  for (const [size, viewport] of [
    ["wide", { width: 1440, height: 900 }],
    ["phone", { width: 390, height: 844 }],
  ]) {
    test(`evidence and correction, ${size}`, async () => {
      const page = await newPage(browser, { viewport, hasTouch: size === "phone", isMobile: size === "phone", reducedMotion: "reduce", colorScheme: size === "phone" ? "light" : "dark" });
      await page.goto(`${instance.url}/login`);
      await signIn(page, instance, password);
      await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?live=1`);
      const chip = page.locator("[data-state-chip]").filter({ visible: true }).last();
      await until("it needs somebody", async () => (await chip.textContent())?.includes("Needs you"));
      await chip.click();
      const popover = page.getByRole("dialog", { name: "How this state is known" });
      await popover.getByText("Delete 12 files? [y/N]").first().waitFor();
      await popover.getByText(/The screen reported it/).waitFor();
      await shot(page, `state-${size}`);
      assert.deepEqual(await axe(page, [".xterm"]), []);
      await popover.getByRole("button", { name: "Idle" }).click();
      await popover.getByText("Set by hand:").waitFor();
      await until("the chip follows", async () => (await chip.textContent())?.includes("Idle"));
      await popover.getByRole("button", { name: "Decide automatically" }).click();
      await until("the evidence counts again", async () => (await chip.textContent())?.includes("Needs you"));
      await page.keyboard.press("Escape");
      await popover.waitFor({ state: "hidden" });
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }
});
