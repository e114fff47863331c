// The real Claude Code and Codex, started through the browser, edit files on the word of a scripted model server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { agentCli, Instance, modelServer, password, until } from "../lib/instance.mjs";

const claude = agentCli("claude");
const codex = agentCli("codex");
const skip = (cli) => (!haveChromium && "Chromium is not installed") || (!cli && "the agent's CLI is not installed");

describe("agents", () => {
  let instance;
  let browser;
  let model;
  before(async () => {
    if (!haveChromium || !(claude || codex)) return;
    model = await modelServer();
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] }, // the model listens here
      agents: {
        "claude-code": { enabled: true, command: claude, defaultArgs: ["--permission-mode", "acceptEdits"] },
        codex: { enabled: true, command: codex, defaultArgs: ["-m", "gpt-5.5", "-s", "danger-full-access", "-a", "never"] },
      },
    });
    await instance.setUp();
    browser = await launch();
    await instance.api("PUT", "/me/agent-accounts/claude-code", { kind: "api_key", api_key: "sk-ant-test-0123456789", base_url: model.url });
    await instance.api("PUT", "/me/agent-accounts/codex", { kind: "api_key", api_key: "sk-test-0123456789", base_url: `${model.url}/v1` });
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });

  for (const [agent, name, cli] of [
    ["claude-code", "Claude Code", claude],
    ["codex", "Codex", codex],
  ]) {
    test(`${name} edits a file`, { skip: skip(cli) }, async () => {
      const ws = await instance.workspace(`Edit with ${name}`);
      const page = await newPage(browser);
      await signIn(page, instance, password);
      await page.goto(`${instance.url}/${instance.team}/w/${ws.key}`);
      const file = agent === "claude-code" ? join(ws.path, "made.txt") : "made.txt";
      await page.getByText(name, { exact: true }).first().click();
      await page.getByLabel("Prompt").fill(`#write {"path":"${file}","text":"made by ${agent}\\n"}`);
      await page.getByRole("button", { name: "Start", exact: true }).click();

      await until(`${name} wrote the file`, () => readFileSync(join(ws.path, "made.txt"), "utf8") === `made by ${agent}\n`);
      await shot(page, `agent-${agent}`);
      await page.getByRole("link", { name: /^Changes/ }).click();
      await page.getByText("made.txt").first().waitFor();

      const s = (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items[0];
      await until(`${name} has come to rest`, async () => ["idle", "waiting"].includes((await instance.api("GET", `/sessions/${s.id}`)).state));
      const out = await (await instance.raw("GET", `/sessions/${s.id}/output?from=0`)).text();
      assert.ok(!out.includes("sk-ant-test-0123456789") && !out.includes("sk-test-0123456789"), "a key is in the output");
      const ended = await instance.api("POST", `/sessions/${s.id}/stop`, { grace_ms: 2000 });
      assert.equal(ended.state, "exited");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  test("one prompt for both and a shell, compared", { skip: skip(claude) || skip(codex) }, async () => {
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, { name: "Compared", source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    const dialog = await compose.open("Attempts");
    await dialog.getByRole("button", { name: "Run with several agents" }).click();
    await dialog.getByRole("button", { name: "Add an attempt" }).click();
    await dialog.getByLabel("Agent of attempt 1").selectOption("claude-code");
    await dialog.getByLabel("Agent of attempt 2").selectOption("codex");
    await dialog.getByLabel("Agent of attempt 3").selectOption("shell");
    await compose.close();
    await (await compose.open("Name, branch and privacy")).getByLabel("Name").fill("Three ways");
    await compose.close();
    // A shell takes the second line for a comment.
    await compose.prompt.fill('touch by-hand\n#write {"path":"made.txt","text":"one\\ntwo\\n"}');
    await compose.create.click();
    await page.waitForURL(/\/runs\/run_/);
    const rows = page.getByRole("region", { name: "Attempts", exact: true }).getByRole("article");
    const row = (name) => page.getByRole("article", { name });
    for (const name of [/^Claude Code/, /^Codex/]) await until(`${name} has written two lines`, async () => /\+2/.test(await row(name).innerText()));
    await page.getByRole("rowheader", { name: "by-hand" }).waitFor();
    const states = async () => (await rows.allInnerTexts()).join(" | ").replace(/\s+/g, " ");
    for (const name of [/^Claude Code/, /^Codex/, /^Shell/]) {
      await until(`${name} is idle`, async () => /Idle|Finished/.test(await row(name).innerText())).catch(async (e) => {
        throw new Error(`${e.message}: ${await states()}`);
      });
    }
    const run = await instance.api("GET", `/runs/${page.url().split("/").at(-1)}`);
    assert.deepEqual(run.attempts.map((a) => [a.agent, a.state, a.name]), [
      ["claude-code", "started", "Three ways · Claude Code"],
      ["codex", "started", "Three ways · Codex"],
      ["shell", "started", "Three ways · Shell"],
    ]);
    await shot(page, "agents-compared");
    await row(/^Codex/).getByRole("button", { name: "Take this one" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Take this one" }).click();
    await until("the others are archived", async () => {
      const now = await instance.api("GET", `/runs/${run.id}`);
      return now.attempts.map((a) => a.workspace.state).join() === "archived,ready,archived";
    });
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
