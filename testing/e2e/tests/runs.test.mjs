// One prompt for several agents at once: the dialog, the compare screen while they work, keeping one, and the way back.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, password, until } from "../lib/instance.mjs";
import { talker } from "../lib/talker.mjs";

describe("runs", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let project;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start(talker());
    await instance.setUp();
    await instance.api("PUT", "/me/agent-accounts/codex", { kind: "terminal" });
    project = await instance.api("POST", `/teams/${instance.team}/projects`, { source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("run with several agents, compare, keep one", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    const dialog = await compose.open("Attempts");
    await dialog.getByRole("button", { name: "Run with several agents" }).click();
    await until("two attempts", async () => (await dialog.getByLabel(/Agent of attempt/).count()) === 2);
    await dialog.getByRole("button", { name: "Add an attempt" }).click();
    await dialog.getByLabel("Agent of attempt 3").selectOption("shell");
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await shot(page, "run-dialog");
    await compose.close();
    await compose.prompt.fill("touch made-here 30");
    await compose.create.click();
    await page.waitForURL(/\/runs\/run_/);
    const cards = page.getByRole("region", { name: "Attempts", exact: true }).getByRole("article");
    await until("three attempts are shown", async () => (await cards.count()) === 3);
    await page.getByText("Working").first().waitFor();
    // The talker repeats its prompt; the shell runs it.
    await until("files have changed", async () => (await page.getByRole("rowheader", { name: "told" }).count()) === 1);
    await page.getByRole("rowheader", { name: "made-here" }).waitFor();
    await shot(page, "run-compare");
    assert.deepEqual(await axe(page), []);

    // Two of them are compared with each other, in the page of the second.
    const pair = page.getByRole("region", { name: "Compare two attempts" });
    await pair.getByLabel("To").selectOption({ index: 2 });
    await pair.getByRole("link", { name: "Show the differences" }).click();
    await page.waitForURL(/from=ws_/);
    for (const path of ["made-here", "told"]) await page.getByRole("button", { name: `Collapse ${path}` }).or(page.getByRole("button", { name: `Expand ${path}` })).first().waitFor();
    assert.deepEqual(page.problems, []);
    await page.goBack();

    const id = page.url().split("/").at(-1);
    const run = await instance.api("GET", `/runs/${id}`);
    assert.deepEqual(run.attempts.map((a) => a.state), ["started", "started", "started"]);
    assert.equal(new Set(run.attempts.map((a) => a.workspace.id)).size, 3);
    await cards.nth(1).getByRole("button", { name: "Take this one" }).click();
    await page.getByRole("alertdialog").getByText(/Nothing is lost/).waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByRole("alertdialog").getByRole("button", { name: "Take this one" }).click();
    await cards.nth(1).getByText("Taken").waitFor();
    await cards.nth(1).getByRole("link", { name: "Checks & merge" }).waitFor();
    await until("the others are archived", async () => {
      const now = await instance.api("GET", `/runs/${id}`);
      return now.attempts.map((a) => a.workspace.state).join() === "archived,ready,archived";
    });
    await cards.nth(1).getByRole("link", { name: /^Open/ }).click();
    await page.getByRole("link", { name: "Compare" }).click();
    await page.waitForURL(/\/runs\/run_/);
    await page.goto(`${instance.url}/${instance.team}/runs`);
    await page.getByRole("link", { name: "touch made-here 30", exact: true }).waitFor();
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("a failure is shown on its attempt; a repeated request has one effect", async () => {
    const body = { project_id: project.id, prompt: "Do it 1", attempts: [{ agent: "codex" }, { agent: "claude-code" }, { agent: "codex", base: "no-such-branch" }] };
    const ask = () =>
      fetch(`${instance.url}/api/v1/teams/${instance.team}/runs`, {
        method: "POST",
        headers: { Authorization: `Bearer ${instance.token}`, "Content-Type": "application/json", "Idempotency-Key": "once" },
        body: JSON.stringify(body),
      }).then((r) => r.json());
    const first = await ask();
    const again = await ask();
    assert.equal(again.id, first.id);
    const done = await until("all are settled", async () => {
      const r = await instance.api("GET", `/runs/${first.id}`);
      return r.attempts.every((a) => a.state === "started" || a.state === "failed") && r;
    });
    assert.equal(done.attempts[0].state, "started");
    assert.equal(done.attempts[2].state, "failed");
    assert.ok(done.attempts[2].reason, "it says why");
    for (const attempts of [[], Array.from({ length: 9 }, () => ({ agent: "codex" })), undefined]) {
      const r = await instance.raw("POST", `/teams/${instance.team}/runs`, { project_id: project.id, prompt: "x", attempts });
      assert.equal(r.status, 400);
      assert.equal((await r.json()).code, "invalid_run");
    }
  });

  for (const colorScheme of ["dark", "light"]) {
    test(`on a phone, ${colorScheme}`, async () => {
      const page = await newPage(browser, { colorScheme, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
      await signIn(page, instance, password);
      const run = (await instance.api("GET", `/teams/${instance.team}/runs`)).items.at(-1);
      await page.goto(`${instance.url}/${instance.team}/runs/${run.id}`);
      await page.getByRole("region", { name: "Attempts", exact: true }).waitFor();
      await shot(page, `run-phone-${colorScheme}`);
      assert.deepEqual(await axe(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page does not scroll sideways");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }
});
