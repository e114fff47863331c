// The message box below a terminal: what is written waits for the agent, is moved, changed, taken back and sent; interrupt; a
// draft that stays; resume and send; another agent in its place.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";
import { talker } from "../lib/talker.mjs";

describe("steer", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start(talker());
    await instance.setUp();
    await instance.api("PUT", "/me/agent-accounts/codex", { kind: "terminal" });
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  const told = (ws) => {
    try {
      return readFileSync(join(ws.path, "told"), "utf8").trim().split("\n");
    } catch {
      return [];
    }
  };
  const begin = async (ws, options) => {
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "codex", cols: 100, rows: 24 });
    const page = await newPage(browser, options);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?session=${s.id}${options?.isMobile ? "&live=1" : ""}`);
    await page.locator("[data-link=live]").waitFor();
    return { s, page, box: page.getByRole("textbox", { name: "Message to Codex" }) };
  };
  const send = async (page, box, text) => {
    await box.fill(text);
    await box.press("Control+Enter");
    await until(`${text} is taken`, async () => (await box.inputValue()) === "");
  };
  const size = (page) => page.locator("[data-terminal]").evaluate((e) => `${e.clientWidth}x${e.clientHeight}`);

  test("a queue: edit, move, cancel, interrupt", async () => {
    const ws = await instance.workspace("Steered");
    const { page, box } = await begin(ws);
    const before = await size(page);
    await send(page, box, "first 300");
    await until("the first is at work", () => told(ws).length === 1);
    for (const text of ["second 0", "third 0", "fourth 0"]) await send(page, box, text);
    await page.getByRole("button", { name: "3 queued" }).click();
    const rows = page.getByRole("list", { name: "Queued prompts" }).getByRole("listitem");
    await until("three rows", async () => (await rows.count()) === 3);
    await page.getByText("Waits: the agent is working").waitFor();

    // By a button, by keys, by dragging.
    await rows.filter({ hasText: "fourth" }).getByRole("button", { name: /Move up/ }).click();
    await until("fourth is second", async () => /fourth/.test(await rows.nth(1).innerText()));
    await rows.filter({ hasText: "fourth" }).getByRole("button", { name: "Edit" }).focus();
    await page.keyboard.press("Alt+ArrowUp");
    await until("fourth is first", async () => /fourth/.test(await rows.nth(0).innerText()));
    await rows.filter({ hasText: "third" }).dragTo(rows.nth(0));
    await until("third is first", async () => /third/.test(await rows.nth(0).innerText()));
    await rows.filter({ hasText: "second" }).getByRole("button", { name: "Cancel this prompt" }).click();
    await until("two rows", async () => (await rows.count()) === 2);
    await rows.filter({ hasText: "fourth" }).getByRole("button", { name: "Edit" }).click();
    const edit = page.getByRole("textbox", { name: "Text of the prompt" });
    await edit.fill("changed 0");
    await edit.press("Control+Enter");
    await rows.filter({ hasText: "changed" }).waitFor();
    assert.equal(await size(page), before, "the terminal keeps its size");
    await shot(page, "steer-queue");
    assert.deepEqual(await axe(page, [".xterm"]), []);

    await page.getByRole("button", { name: "Interrupt", exact: true }).click();
    await page.getByText("Codex was interrupted", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Continue queue" }).click();
    await until("all were sent", () => told(ws).length === 4);
    assert.deepEqual(told(ws), ["first 300", "interrupted", "third 0", "changed 0"]);
    await until("nothing waits", async () => (await page.getByRole("button", { name: /queued|held/ }).count()) === 0);
    assert.equal(await size(page), before, "the terminal keeps its size");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("a draft stays; resume and send; another agent", async () => {
    const ws = await instance.workspace("Resumed");
    const { page, s, box } = await begin(ws);
    await send(page, box, "begin 0");
    await until("it gets the prompt", () => told(ws).length === 1);
    await box.fill("not yet\nsent 0");
    await page.reload();
    await until("the draft is there", async () => (await box.inputValue()) === "not yet\nsent 0");
    await instance.api("POST", `/sessions/${s.id}/stop`, { grace_ms: 200 });
    await page.getByRole("button", { name: "Resume and send" }).waitFor();
    await box.fill("again 0");
    await page.getByRole("button", { name: "Resume and send" }).click();
    await until("it gets the prompt", () => told(ws).at(-1) === "again 0");
    await page.waitForURL((u) => u.searchParams.get("session") !== s.id);

    await page.getByRole("button", { name: "More actions for Codex" }).click();
    await page.getByRole("menuitem", { name: /another agent/ }).click();
    const dialog = page.getByRole("dialog");
    await until("the prompts are filled in", async () => (await dialog.getByLabel("Prompt").inputValue()) === "again 0");
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await dialog.getByRole("button", { name: /^Start/ }).click();
    await dialog.waitFor({ state: "detached" });
    const all = (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items;
    assert.equal(all.length, 3);
    assert.equal(all[0].prompt, "again 0");
    assert.ok(all[1].ended_at, "the one before was stopped");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  for (const colorScheme of ["dark", "light"]) {
    test(`on a phone, ${colorScheme}`, async () => {
      const ws = await instance.workspace(`Phone ${colorScheme}`);
      const { page, box } = await begin(ws, { colorScheme, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
      await box.fill("from the phone 300");
      await page.getByRole("button", { name: /^(Send|Queue)$/ }).tap();
      await until("it gets the prompt", () => told(ws)[0] === "from the phone 300");
      await send(page, box, "next 0");
      await page.getByRole("button", { name: "1 queued" }).tap();
      await page.getByRole("list", { name: "Queued prompts" }).waitFor();
      await shot(page, `steer-phone-${colorScheme}`);
      assert.deepEqual(await axe(page, [".xterm"]), []);
      // The same queue where the session is read instead of watched.
      await page.goto(page.url().replace("live=1", ""));
      await page.getByRole("button", { name: "1 queued" }).tap();
      await page.getByRole("list", { name: "Queued prompts" }).getByText("next 0").waitFor();
      assert.deepEqual(await axe(page, [".xterm"]), []);
      await page.getByRole("button", { name: "Cancel this prompt" }).tap();
      await until("the queue is empty", async () => (await page.getByRole("button", { name: "1 queued" }).count()) === 0);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }
});
