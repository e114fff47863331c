// Several accounts of one agent, of a person and of the team, kept and chosen in the browser.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, password, root, until } from "../lib/instance.mjs";

const keys = { work: "sk-work-0123456789abcdef", home: "sk-home-fedcba9876543210", team: "sk-team-00112233445566" };

describe("agents' accounts", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let vendor;
  before(async () => {
    if (!haveChromium) return;
    const dir = join(root, ".cache/e2e/parrot");
    mkdirSync(dir, { recursive: true });
    const program = join(dir, "parrot");
    writeFileSync(program, `#!/bin/sh\nprintf '%s' "$PARROT_KEY" | tail -c 4 > account.txt\necho "At your service"\nwhile read -r line; do echo "You said $line"; done\n`);
    chmodSync(program, 0o755);
    vendor = createServer((req, res) => res.writeHead(req.headers.authorization === `Bearer ${keys.work}` ? 200 : 401).end("{}"));
    await new Promise((ok) => vendor.listen(0, "127.0.0.1", ok));
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] },
      agents: {
        parrot: { name: "Parrot", command: program, install: "npm install -g parrot", account: { env: "PARROT_KEY" }, screenRules: [{ pattern: "At your service$", says: "idle" }] },
        missing: { name: "Missing", command: "no-such-program-here", install: "npm install -g no-such-program", account: { env: "X_KEY" } },
      },
    });
    await instance.setUp();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    vendor?.close();
  });

  const add = async (page, agent, { name, key, url }, submit) => {
    await page.getByRole("button", { name: new RegExp(`^Add (an|another) account for ${agent}$`) }).click();
    const form = page.getByRole("group", { name: `New account of ${agent}` });
    await form.getByLabel("Name").fill(name);
    await form.getByLabel("API key", { exact: true }).fill(key);
    if (url) await form.getByLabel("API address").fill(url);
    await form.getByRole("button", { name: submit }).click();
    await form.waitFor({ state: "detached" });
  };

  for (const [size, colorScheme, viewport] of [
    ["wide", "dark", { width: 1440, height: 900 }],
    ["phone", "light", { width: 390, height: 844 }],
  ]) {
    test(`kept in the settings, ${size}`, async () => {
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await signIn(page, instance, password);
      await page.goto(`${instance.url}/${instance.team}/settings/agents`);
      await page.getByRole("heading", { name: /Parrot/ }).waitFor();
      await page.getByText("npm install -g no-such-program").waitFor(); // how to install what is missing
      const at = `http://127.0.0.1:${vendor.address().port}/v1`;
      await add(page, "Codex", { name: "Work", key: keys.work, url: at }, "Use this account");
      await add(page, "Codex", { name: "Home", key: keys.home, url: at }, "Use this account");
      const list = page.getByRole("list", { name: "Accounts of Codex" });
      const row = (name) => list.getByRole("listitem").filter({ hasText: name });
      await row("Work").getByText("Default", { exact: true }).waitFor();
      await row("Work").getByText("ending in cdef").waitFor();

      // Tried without spending.
      await row("Work").getByRole("button", { name: "Test Work" }).click();
      await row("Work").getByText("Works").waitFor();
      await row("Home").getByRole("button", { name: "Test Home" }).click();
      await row("Home").getByText("Refused", { exact: true }).waitFor();

      await row("Home").getByRole("button", { name: "Make default Home" }).click();
      await row("Home").getByText("Default", { exact: true }).waitFor();
      await row("Work").getByRole("button", { name: "Edit Work" }).click();
      await page.getByRole("group", { name: "Account Work of Codex" }).getByLabel("Name").fill("Office");
      await shot(page, `accounts-${colorScheme}-${size}`);
      assert.deepEqual(await axe(page), []);
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await row("Office").waitFor();
      assert.ok(!(await page.content()).includes(keys.work), "a key is on the page");

      for (const name of ["Office", "Home"]) {
        await row(name).getByRole("button", { name: `Delete ${name}` }).click();
        await page.getByRole("alertdialog").or(page.getByRole("dialog")).getByRole("button", { name: "Delete" }).click();
        await row(name).waitFor({ state: "detached" });
      }

      await page.goto(`${instance.url}/${instance.team}/settings/team-agents`);
      await page.getByRole("heading", { name: "Gemini CLI" }).waitFor();
      await add(page, "Gemini CLI", { name: "Budget", key: keys.team }, "Add for the team");
      await page.getByRole("list", { name: "Accounts of Gemini CLI" }).getByText("The team's API key ending in 5566").waitFor();
      await shot(page, `team-accounts-${colorScheme}-${size}`);
      assert.deepEqual(await axe(page), []);
      const kept = (await instance.api("GET", `/teams/${instance.team}/agent-accounts`)).items;
      await instance.raw("DELETE", `/agent-accounts/${kept[0].id}`);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  test("chosen when a session starts, and remembered for the project", async () => {
    const ws = await instance.workspace("Choose an account");
    await instance.api("POST", "/me/agent-accounts", { agent: "parrot", name: "Work", kind: "api_key", api_key: keys.work });
    await instance.api("POST", `/teams/${instance.team}/agent-accounts`, { agent: "parrot", name: "Ours", kind: "api_key", api_key: keys.team });
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}`);
    await page.getByText("Parrot", { exact: true }).first().click();
    const pick = page.getByLabel("Account", { exact: true });
    await pick.waitFor();
    assert.deepEqual(await pick.locator("option").allTextContents(), ["Work, default", "Ours (team)"]);
    await pick.selectOption({ label: "Ours (team)" });
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await shot(page, "choose-account");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.locator("[data-link=live]").waitFor(); // the page has its answer, and has remembered what was chosen
    await until("the team's account is used", () => readFileSync(join(ws.path, "account.txt"), "utf8") === keys.team.slice(-4));
    const s = (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items[0];
    const ours = (await instance.api("GET", `/teams/${instance.team}/agent-accounts`)).items[0];
    assert.equal(s.account_id, ours.id);
    assert.equal(ours.running_sessions, 1);
    await until("the screen rule says idle", async () => (await instance.api("GET", `/sessions/${s.id}`)).state === "idle");

    // The next workspace of the project offers it again.
    await page.goto(`${instance.url}/${instance.team}/p?new=${ws.project_id}`);
    const panel = await composer(page).open("Agent and model");
    await panel.getByLabel("Account", { exact: true }).waitFor();
    await until("it is chosen", async () => (await panel.getByLabel("Account", { exact: true }).locator("option:checked").textContent()) === "Ours (team)");

    // What uses an account is said before it is deleted.
    await page.goto(`${instance.url}/${instance.team}/settings/team-agents`);
    await page.getByRole("button", { name: "Delete Ours" }).click();
    await page.getByText("1 running session uses it").waitFor();
    await page.getByRole("alertdialog").or(page.getByRole("dialog")).getByRole("button", { name: "Delete" }).click();
    await until("it is deleted", async () => (await instance.api("GET", `/teams/${instance.team}/agent-accounts`)).items.length === 0);
    await instance.api("POST", `/sessions/${s.id}/stop`, { grace_ms: 500 });
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
