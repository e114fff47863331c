// The timeline of a workspace: states of the files are listed, compared, restored, pinned and named, by keyboard and mouse, on a phone too.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

describe("timeline", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let ws;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Keep every version");
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("a state is kept, compared and restored", async () => {
    const file = join(ws.path, "README.md");
    writeFileSync(file, "# Good\n");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=timeline`);
    await page.getByRole("button", { name: "Save snapshot" }).click();
    const kept = page.getByRole("listitem").filter({ hasText: "Saved manually" });
    await kept.waitFor();
    writeFileSync(file, "# Worse\n");
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await page.getByLabel("Every file change").check();
    await page.getByRole("listitem").filter({ hasText: "Files changed" }).first().waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility");

    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Restore…" }).click();
    const dialog = page.getByRole("dialog", { name: "Restore" });
    await dialog.getByText("README.md").waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the dialog");
    await dialog.getByRole("button", { name: "Restore" }).click();
    await page.getByText("1 file restored", { exact: true }).first().waitFor();
    assert.equal(readFileSync(file, "utf8"), "# Good\n");
    await page.getByRole("listitem").filter({ hasText: "Before a restore" }).waitFor();

    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Pin" }).click();
    await kept.getByText("pinned").waitFor();
    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "What changed" }).click();
    await page.waitForURL(/tab=changes/);
    await page.getByText("README.md").first().waitFor();
    assert.deepEqual(page.problems, [], "problems");

    // The trash and the use of the disk have addresses of their own.
    await page.goto(`${instance.url}/${instance.team}/trash`);
    await page.waitForURL(/\/w\?show=trash/);
    await page.getByRole("link", { name: "Trash" }).waitFor();
    await page.goto(`${instance.url}/${instance.team}/settings/disk`);
    await page.getByText(/on disk, counted/).waitFor();
    await page.getByRole("heading", { name: "Terminal history" }).waitFor();
    assert.deepEqual(page.problems, [], "problems");

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=timeline`);
    await phone.getByRole("listitem").filter({ hasText: "Before a restore" }).waitFor();
    assert.deepEqual(await axe(phone), [], "accessibility on a phone");
    assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
    const open = await phone.getByRole("link", { name: "Timeline", exact: true }).boundingBox();
    assert.ok(open.x >= 0 && open.x + open.width <= 390, "the open view is in the strip of views");
    await shot(phone, "timeline-phone");
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const what = await phone.getByRole("region", { name: "Branch and main" }).getByRole("definition").first().boundingBox();
    assert.ok(what.width > 200, "what the branch has is not squeezed by its name");
    assert.deepEqual(phone.problems, [], "problems on a phone");
  });
});
