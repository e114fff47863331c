// Many workspaces: the sidebar, the table with actions for many, and the board.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("many workspaces", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let page;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start();
    await instance.setUp();
    const first = await instance.workspace("Quota banner");
    await instance.newWorkspace(first.project_id, "Flaky sync test");
    browser = await launch();
    page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w`);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("the sidebar filters, pins by a drag, and keeps its width", async () => {
    const sidebar = page.getByRole("navigation", { name: "Sidebar" });
    await sidebar.getByRole("link", { name: /Quota banner/ }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("flaky");
    await until("one is left", async () => (await sidebar.getByRole("link").count()) === 1);
    await page.keyboard.press("Escape");
    const from = await sidebar.getByRole("link", { name: /Quota banner/ }).boundingBox();
    await page.mouse.move(from.x + 60, from.y + 12);
    await page.mouse.down();
    await page.mouse.move(from.x + 60, from.y + 30, { steps: 3 });
    const zone = await sidebar.getByText("Drop here to pin").boundingBox();
    await page.mouse.move(zone.x + 40, zone.y + 8, { steps: 3 });
    await page.mouse.up();
    await sidebar.getByRole("button", { name: /^Pinned 1/ }).waitFor();
    const edge = sidebar.locator("..").getByRole("separator");
    await edge.focus();
    await page.keyboard.press("ArrowRight");
    await page.reload();
    await sidebar.getByRole("button", { name: /^Pinned 1/ }).waitFor();
    assert.equal((await sidebar.boundingBox()).width, 264);
    assert.deepEqual(await axe(page), []);
  });

  test("a selection is archived after one question, and Undo brings it back", async () => {
    const table = page.getByRole("table", { name: "Workspaces" });
    await table.getByRole("checkbox", { name: "Select Quota banner" }).click();
    await table.getByRole("checkbox", { name: "Select Flaky sync test" }).click({ modifiers: ["Shift"] });
    await page.getByRole("toolbar", { name: "Selected workspaces" }).getByRole("button", { name: "Archive" }).click();
    await page.getByRole("alertdialog").getByText("Flaky sync test").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Archive" }).click();
    await page.getByText("2 workspaces are archived").first().waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await table.getByRole("row", { name: /Quota banner/ }).waitFor();
    await table.getByRole("row", { name: /Flaky sync test/ }).waitFor();
  });

  test("the board starts an agent and says why a column takes no card", async () => {
    await page.getByRole("button", { name: "Board" }).click();
    const card = page.getByRole("region", { name: "Idle" }).getByRole("article", { name: "Flaky sync test" });
    const drag = async (column) => {
      const from = await card.boundingBox();
      const to = await page.getByRole("region", { name: column, exact: true }).boundingBox();
      await page.mouse.move(from.x + 20, from.y + 30);
      await page.mouse.down();
      await page.mouse.move(to.x + 60, to.y + 60, { steps: 4 });
      await page.mouse.up();
    };
    await card.waitFor();
    await drag("Done");
    await page.getByText(/comes here by itself when it is merged/).first().waitFor();
    await drag("Working");
    await page.getByRole("dialog", { name: "Start an agent in Flaky sync test" }).waitFor();
    await page.keyboard.press("Escape");
    await shot(page, "board");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
  });
});
