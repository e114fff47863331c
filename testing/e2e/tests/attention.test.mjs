// What waits for a person: the inbox, its one number, notifications by the rules of a browser.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("attention", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let ws;
  let other;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Flaky sync test");
    other = await instance.newWorkspace(ws.project_id, "Quota banner");
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  /** A session that ends with an error. */
  const fail = (w) => instance.api("POST", `/workspaces/${w.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo no; exit 3"], cols: 80, rows: 24 });
  const inbox = () => instance.api("GET", `/teams/${instance.team}/inbox`);
  const at = (path) => `${instance.url}/${instance.team}${path}`;

  test("one number, snooze and done", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(at("/w"));
    await page.getByRole("heading", { name: "Workspaces" }).waitFor();
    assert.doesNotMatch(await page.title(), /^\(/);

    await fail(ws);
    await until("the number is in the title, the header and the icon", async () => (await page.title()).startsWith("(1) "));
    await page.getByRole("link", { name: /^Inbox.*1 waiting for you/ }).filter({ visible: true }).waitFor();
    assert.match(await page.locator("link[rel=icon]").getAttribute("href"), /^data:/);
    await page.getByRole("row").filter({ hasText: ws.name }).getByText("Failed", { exact: true }).filter({ visible: true }).first().waitFor();

    await page.keyboard.press("g");
    await page.keyboard.press("i");
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    await page.getByRole("listitem", { name: ws.name }).getByText("Failed").waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("s");
    await page.getByText("Nothing needs you.").waitFor();
    await until("the title has no number", async () => !(await page.title()).startsWith("("));
    await until("the server has it snoozed", async () => (await inbox()).count === 0);
    await page.getByText("Snoozed 1").click();
    await page.getByRole("button", { name: `Unsnooze ${ws.name}` }).click();
    await page.getByRole("listitem", { name: ws.name }).waitFor();

    await page.keyboard.press("Escape");
    await page.getByRole("listitem", { name: ws.name }).locator("kbd", { hasText: /^x$/ }).waitFor();
    await page.keyboard.press("x");
    await page.getByText("Nothing needs you.").waitFor();
    await until("the server knows", async () => (await inbox()).items.length === 0);
    await page.getByRole("button", { name: "Undo" }).last().click();
    await page.getByRole("listitem", { name: ws.name }).waitFor();
    await page.getByRole("listitem", { name: ws.name }).getByRole("button", { name: /^Open/ }).click();
    await page.waitForURL(new RegExp(`/w/${ws.key}`));
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("one tab of several notifies, and none about what somebody looks at", async () => {
    const page = await newPage(browser);
    const { context } = { context: page.context() };
    await context.grantPermissions(["notifications"], { origin: instance.url });
    await context.addInitScript(() => {
      window.__shown = [];
      window.Notification = class {
        static permission = "granted";
        constructor(title, options) {
          this.title = title;
          window.__shown.push({ title, tag: options.tag, body: options.body });
          window.__last = this;
        }
        close() {
          this.onclose?.();
        }
      };
    });
    await signIn(page, instance, password);
    await page.goto(at("/settings/notifications"));
    await page.getByText("System notifications are allowed.").waitFor();
    await page.getByRole("group", { name: "An agent failed" }).getByRole("button", { name: "System" }).click();
    await page.getByRole("button", { name: "Play sound" }).click();
    const second = await context.newPage();
    second.problems = page.problems;
    await second.goto(at("/p"));
    await second.getByRole("heading", { name: "Projects" }).waitFor();
    const shown = async () => (await page.evaluate(() => window.__shown)).concat(await second.evaluate(() => window.__shown));

    await fail(other);
    await until("one notification in both tabs together", async () => (await shown()).length === 1);
    const [note] = await shown();
    assert.match(note.title, /failed/);
    assert.equal(note.body, other.name);
    assert.equal(note.tag, other.id);
    await shot(second, "notified");

    // The tab that spoke goes; the other takes over. A click leads to the workspace.
    const speaks = (await page.evaluate(() => window.__shown.length)) === 1 ? page : second;
    const rest = speaks === page ? second : page;
    await speaks.close();
    const third = await instance.newWorkspace(ws.project_id, "Third work");
    await fail(third);
    await until("the other tab speaks now", async () => (await rest.evaluate(() => window.__shown.length)) === 1);
    await rest.evaluate(() => window.__last.onclick());
    await rest.waitForURL(new RegExp(`/w/${third.key}`));

    // Looked at, it says nothing.
    const quiet = await instance.api("POST", `/workspaces/${third.id}/sessions`, { agent: "command", argv: ["sh", "-c", "exit 4"], cols: 80, rows: 24 });
    await until("the inbox has it", async () => (await inbox()).items.some((i) => i.session_id === quiet.id));
    await until("the page has it", async () => (await rest.title()).startsWith(`(${(await inbox()).count}) `));
    assert.equal(await rest.evaluate(() => window.__shown.length), 1);
    assert.deepEqual(page.problems, []);
    await context.close();
  });

  for (const colorScheme of ["dark", "light"]) {
    for (const [size, viewport] of [
      ["wide", { width: 1440, height: 900 }],
      ["phone", { width: 390, height: 844 }],
    ]) {
      test(`the inbox is accessible, ${colorScheme}, ${size}`, async () => {
        const page = await newPage(browser, { colorScheme, viewport, hasTouch: size === "phone", isMobile: size === "phone", reducedMotion: "reduce" });
        await signIn(page, instance, password);
        await page.goto(at(""));
        // A phone starts at the inbox, a desktop at the workspaces.
        await page.getByRole("heading", { name: size === "phone" ? "Inbox" : "Workspaces" }).waitFor();
        await page.goto(at("/inbox"));
        await page.getByRole("listitem").filter({ hasText: "Failed" }).first().waitFor();
        await shot(page, `inbox-full-${colorScheme}-${size}`);
        assert.deepEqual(await axe(page), []);
        assert.deepEqual(page.problems, []);
        await page.context().close();
      });
    }
  }
});
