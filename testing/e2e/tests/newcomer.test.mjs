// From the setup link to an agent's question, counted in clicks and fields; the composer, its draft and its files; set-up that is watched.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, modelServer, password, root, until } from "../lib/instance.mjs";

/** Configuration that makes Codex a program that asks for a permission as soon as it has its prompt. */
function asker() {
  const path = join(root, ".cache/e2e/asker");
  mkdirSync(join(root, ".cache/e2e"), { recursive: true });
  writeFileSync(
    path,
    String.raw`#!/bin/bash
say() { printf '\033]7501;state=%s:app=codex\033\\' "$1"; }
say working; printf 'prompt: %s\r\n' "${"$"}{@: -1}"; printf 'May I run the tests? [y/n]\r\n'; say blocked:kind=permission
while IFS= read -r line; do :; done
`,
  );
  chmodSync(path, 0o755);
  return { agents: { codex: { command: path } } };
}

describe("a newcomer", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let model;
  let page;
  before(async () => {
    [model, instance] = await Promise.all([modelServer(), Instance.start({ ...asker(), outgoing: { allow: ["127.0.0.0/8"] } })]);
    browser = await launch();
    page = await newPage(browser, { colorScheme: "dark", viewport: { width: 1280, height: 643 }, reducedMotion: "reduce" });
    // Clicks of a pointer, and fields that were written in. A key that acts as a click has no detail.
    await page.addInitScript(() => {
      const count = (key, by) => sessionStorage.setItem(key, String(Number(sessionStorage.getItem(key) ?? 0) + by));
      addEventListener("click", (e) => e.isTrusted && e.detail > 0 && count("clicks", 1), true);
      addEventListener(
        "change",
        (e) => e.isTrusted && e.target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select") && count("fields", 1),
        true,
      );
    });
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });
  const counted = async () => page.evaluate(() => ["clicks", "fields"].map((k) => Number(sessionStorage.getItem(k) ?? 0)));
  const type = async (field, text) => {
    await field.focus();
    await page.keyboard.type(text);
  };
  const sessionsOf = async (key) => {
    const ws = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.key === key);
    return ws ? (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items : [];
  };
  const fits = async (locator) => {
    const box = await locator.boundingBox();
    const { width, height } = page.viewportSize();
    assert.ok(box && box.y >= 0 && box.y + box.height <= height && box.x >= 0 && box.x + box.width <= width, `out of view: ${JSON.stringify(box)}`);
  };

  test("needs five clicks and three fields to the agent's first question, and none for the second workspace", async () => {
    await page.goto(instance.setupLink);
    await type(page.getByLabel("Your name"), "Mika");
    await type(page.getByLabel("E-mail"), "mika@example.com");
    await type(page.getByLabel("Password"), password);
    await page.getByRole("button", { name: "Create and sign in" }).click();
    await page.getByRole("button", { name: "Try the sample project" }).click();
    const compose = composer(page);
    await compose.form.waitFor();
    assert.match(await compose.prompt.inputValue(), /--top N/, "the sample suggests a prompt");
    const account = compose.form.getByRole("region", { name: "An account for Codex" });
    await account.getByRole("radio", { name: /Log in inside the terminal/ }).click();
    await fits(compose.prompt);
    await fits(compose.create);
    assert.deepEqual(await axe(page), []);
    await shot(page, "newcomer-composer");
    await account.getByRole("button", { name: "Use this account" }).click();
    await account.waitFor({ state: "detached" });
    await compose.create.click();
    await page.waitForURL(/\/w\/PW-1/);
    await instance.takeTokenOnce();
    await until("the agent asks", async () => (await sessionsOf("PW-1"))[0]?.state === "waiting");
    await page.getByText(/asks for your approval|needs your/).first().waitFor();
    const [clicks, fields] = await counted();
    console.log(`newcomer: ${clicks} clicks, ${fields} fields`);
    assert.ok(clicks <= 5 && fields <= 3, `${clicks} clicks and ${fields} fields`);
    assert.match((await sessionsOf("PW-1"))[0].prompt, /--top N/);
    const [sample] = (await instance.api("GET", `/teams/${instance.team}/projects`)).items;
    assert.deepEqual(sample.checks.map((c) => c.command), ["python3 -m unittest"]);

    await page.getByRole("link", { name: "Inbox" }).first().focus();
    await page.keyboard.press("c");
    await compose.prompt.waitFor();
    await page.keyboard.type("Read standard input when no file is named.");
    await compose.form.getByText("On branch").waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/w\/PW-2/);
    await page.getByRole("heading", { name: "Read standard input when no file is named" }).waitFor();
    assert.equal((await counted())[0], clicks, "the second workspace needs no click");
    await until("its agent asks", async () => (await sessionsOf("PW-2"))[0]?.state === "waiting");
    assert.deepEqual(page.problems, []);
  });

  test("writes a prompt with files of the branch; the draft is kept, and what is missing is said", async () => {
    const at = `${instance.url}/${instance.team}`;
    await page.goto(`${at}/inbox`);
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    await page.keyboard.press("c");
    const compose = composer(page);
    await compose.prompt.waitFor();
    await page.keyboard.type("Look at @wordc");
    const files = page.getByRole("listbox", { name: "Files of the branch" });
    await files.getByRole("option", { name: "test_wordcount.py" }).waitFor();
    assert.deepEqual(await axe(page), []);
    await page.keyboard.press("Enter");
    assert.equal(await compose.prompt.inputValue(), "Look at @wordcount.py ");
    await page.reload();
    await compose.prompt.waitFor();
    assert.equal(await compose.prompt.inputValue(), "Look at @wordcount.py ");
    await compose.agent(/^A command/);
    await compose.prompt.fill("");
    await compose.form.getByText("Write the command.").waitFor();
    assert.ok(await compose.create.isDisabled());

    const phone = await newPage(browser, { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, storageState: await page.context().storageState() });
    await phone.goto(`${at}/w?new=1`);
    const small = composer(phone);
    await small.chip("Where it runs: ").waitFor();
    for (const part of [small.prompt, small.create]) {
      const box = await part.boundingBox();
      assert.ok(box && box.y >= 0 && box.y + box.height <= 844, `out of view: ${JSON.stringify(box)}`);
    }
    assert.deepEqual(await axe(phone), []);
    await shot(phone, "newcomer-phone");
    await small.open("Where it runs");
    assert.deepEqual(await axe(phone), []);
    assert.deepEqual(phone.problems, []);
    await phone.context().close();
    assert.deepEqual(page.problems, []);
  });

  test("watches the set-up, and the files of a first prompt survive a reload meanwhile", async () => {
    const project = (await instance.api("GET", `/teams/${instance.team}/projects`)).items[0];
    const gate = join(instance.dir, "go");
    await instance.api("PATCH", `/projects/${project.id}`, { setup_script: `echo preparing things; while ! test -e '${gate}'; do sleep 0.1; done` });
    await instance.api("POST", "/me/agent-accounts", { agent: "parawork", kind: "api_key", api_key: "sk-ant-api03-abcdefghijklmnopqrstuvwxyz", base_url: model.url, api: "messages" });
    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    await compose.agent(/^Parawork/);
    await compose.prompt.fill('Describe it #script [{"text":"A small note."}]');
    await compose.form.locator("input[type=file]").setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("from the first prompt\n") });
    await compose.form.getByText("note.txt").waitFor();
    await compose.create.click();
    await page.waitForURL(/\/w\/PW-3/);
    await page.locator("#main").getByText("Run the setup script").waitFor();
    await page.locator("#main").getByText("Start Parawork", { exact: true }).waitFor();
    assert.equal(await page.getByText(/No session|Start a session/).count(), 0);
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await shot(page, "newcomer-setup");
    await page.reload();
    await page.locator("#main").getByText("Run the setup script").waitFor();
    writeFileSync(gate, "");
    const thread = await until("the session has its prompt", async () => {
      const [s] = (await sessionsOf("PW-3")).filter((x) => x.agent === "parawork");
      const t = s && (await instance.api("GET", `/sessions/${s.id}/thread`));
      return t && (await instance.api("GET", `/threads/${t.id}`)).messages.length > 0 && t;
    });
    const first = (await instance.api("GET", `/threads/${thread.id}`)).messages[0];
    assert.ok(first.parts.some((p) => p.name === "note.txt"), JSON.stringify(first.parts));
    page.problems.length = 0; // its thread is asked for before it is there

    // A step that fails says why.
    await instance.api("PATCH", `/projects/${project.id}`, { setup_script: "echo no compiler here; exit 3" });
    const made = await instance.api("POST", `/teams/${instance.team}/workspaces`, { project_id: project.id, name: "Fails" });
    await page.goto(`${instance.url}/${instance.team}/w/${made.key}`);
    await page.getByRole("heading", { name: "The workspace could not be created" }).waitFor();
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await shot(page, "newcomer-failed");
    assert.deepEqual(await axe(page, [".xterm"]), []);
  });
});
