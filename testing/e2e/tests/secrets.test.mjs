// Secrets in the browser: added, replaced and deleted, and never shown.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

const first = "swordfish-of-the-browser-test";
const second = "cuttlefish-of-the-browser-exam";

describe("secrets", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start({});
    await instance.setUp();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  for (const [size, colorScheme, viewport, section] of [
    ["wide", "dark", { width: 1440, height: 900 }, "team-secrets"],
    ["phone", "light", { width: 390, height: 844 }, "secrets"],
  ]) {
    test(`added, replaced and deleted, ${size}`, async () => {
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await signIn(page, instance, password);
      await page.goto(`${instance.url}/${instance.team}/settings/${section}`);
      await page.getByRole("button", { name: "Add a secret" }).click();
      const form = page.getByRole("form", { name: "New secret" });
      await form.getByLabel("Name").fill("PATH");
      await form.getByLabel("Value", { exact: true }).fill(first);
      await form.getByRole("button", { name: "Add" }).click();
      await form.getByText("sessions need for themselves").waitFor();
      assert.deepEqual(await axe(page), []);
      await form.getByLabel("Name").fill("DEPLOY_TOKEN");
      await form.getByRole("button", { name: "Add" }).click();
      const row = page.getByRole("listitem").filter({ hasText: "DEPLOY_TOKEN" });
      await row.getByText("ends in test").waitFor();
      await row.getByRole("button", { name: "Change DEPLOY_TOKEN" }).click();
      const change = page.getByRole("form", { name: "Change DEPLOY_TOKEN" });
      assert.equal(await change.getByLabel("Value", { exact: true }).inputValue(), "");
      await change.getByLabel("Value", { exact: true }).fill(second);
      assert.deepEqual(await axe(page), []);
      await change.getByRole("button", { name: "Save" }).click();
      await row.getByText("ends in exam").waitFor();
      await row.getByText("Replaced").waitFor();
      const html = await page.content();
      assert.ok(!html.includes(first) && !html.includes(second), "a value stands in the page");
      await row.getByRole("button", { name: "Delete DEPLOY_TOKEN" }).click();
      await page.getByRole("alertdialog").or(page.getByRole("dialog")).getByRole("button", { name: "Delete" }).click();
      await page.getByText("No secrets yet").waitFor();
      await page.close();
    });
  }
});
