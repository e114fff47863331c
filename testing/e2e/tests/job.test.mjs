// The main job in a real browser against the real binary: from the setup link to the merge, with a shell.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { haveChromium, launch, newPage, shot } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

let instance;
let browser;
before(async () => {
  instance = await Instance.start();
  browser = haveChromium && (await launch());
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

test("set-up to merge with a shell", { skip: !haveChromium && "Chromium is not installed" }, async () => {
  const page = await newPage(browser);
  await page.goto(instance.setupLink);
  await page.getByLabel("Your name").fill("Mika");
  await page.getByLabel("E-mail").fill("mika@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("Team", { exact: true }).fill("Harbour");
  await shot(page, "setup");
  await page.getByRole("button", { name: "Create and sign in" }).click();

  await page.getByRole("button", { name: "Try the sample project" }).click();
  const compose = composer(page);
  await compose.prompt.fill("Say hello");
  await compose.agent(/^Shell/);
  await shot(page, "new-workspace");
  await compose.create.click();

  await page.waitForURL(/\/w\/PW-1/);
  await page.getByRole("heading", { name: "Say hello" }).waitFor();
  await until("the terminal is live", async () => (await page.locator("[data-link=live]").count()) > 0);
  await page.locator(".xterm-helper-textarea").first().focus();
  await page.keyboard.type("printf 'hello\\n' > greeting.txt && echo do''ne\n");
  await instance.takeTokenOnce();
  await until("the shell answered", async () => /\rdone\r/.test(await lastOutput()));
  await shot(page, "terminal");

  await page.getByRole("link", { name: /^Changes/ }).click();
  await page.getByText("greeting.txt").first().waitFor();
  await until("the diff shows the line", async () => (await page.getByText("hello", { exact: true }).count()) > 0);
  await shot(page, "changes");

  await page.getByRole("button", { name: "Commit", exact: true }).first().click();
  await page.getByLabel(/message/i).first().fill("Say hello");
  await page.getByRole("button", { name: /^Commit/ }).last().click();
  await until("the commit is there", async () => {
    const ws = await workspace();
    return (await instance.api("GET", `/workspaces/${ws.id}/commits`)).items.length === 1;
  });

  await page.getByRole("button", { name: /^Merge/ }).first().click();
  const merge = page.getByRole("region", { name: /^Merge into/ });
  await merge.getByText("Squash", { exact: true }).click();
  await shot(page, "merge");
  await merge.getByRole("button", { name: "Squash and merge" }).click();
  await until("it is merged", async () => (await workspace()).merged_at);

  const project = (await instance.api("GET", `/teams/${instance.team}/projects`)).items[0];
  const next = await instance.newWorkspace(project.id, "Look");
  assert.equal(readFileSync(join(next.path, "greeting.txt"), "utf8"), "hello\n");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

async function workspace() {
  return (await instance.api("GET", `/teams/${instance.team}/workspaces?show=all`)).items.find((w) => w.key === "PW-1");
}

async function lastOutput() {
  const ws = await workspace();
  const s = (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items[0];
  return s ? (await instance.raw("GET", `/sessions/${s.id}/output?from=0`)).text() : "";
}
