// A member's own machine, from nothing to work on it: the real server, the program it offers for download, a real Docker engine, and
// what happens when the machine goes away and comes back.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { haveEngine, startEngine } from "../lib/engine.mjs";
import { Instance, password, root, until } from "../lib/instance.mjs";

const skip = !haveChromium ? "Chromium is not installed" : !haveEngine && "a Docker engine needs root and dockerd";

describe("a member's own machine", { skip }, () => {
  let instance;
  let browser;
  let engine;
  let page;
  let home; // the current folder on the machine
  let runner;
  let command;
  let workspace;
  before(async () => {
    if (skip) return;
    [engine, instance] = await Promise.all([startEngine("ubuntu:latest"), Instance.start()]);
    await instance.setUp();
    browser = await launch(["--disable-3d-apis"]);
    mkdirSync(join(root, ".cache/e2e"), { recursive: true });
    home = mkdtempSync(join(root, ".cache/e2e/runner-"));
    page = await newPage(browser, { colorScheme: "dark", reducedMotion: "reduce" });
    await signIn(page, instance, password);
  });
  after(async () => {
    // The kill switch: what a machine runs would go on without its program.
    if (home && existsSync(join(home, "parawork"))) await once(type("./parawork runner stop --now"), "exit");
    await end("SIGTERM");
    await browser?.close();
    await instance?.stop();
    await engine?.stop();
    if (home) rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Types a line into a shell of the machine. */
  const type = (line) => {
    const child = spawn("bash", ["-c", `exec 2>&1; ${line}`], { cwd: home, env: { PATH: process.env.PATH, HOME: home, DOCKER_HOST: engine.host, NO_COLOR: "1" } });
    child.said = "";
    child.stdout.on("data", (d) => (child.said += d));
    return child;
  };
  const end = async (signal) => {
    if (!runner || runner.exitCode !== null || runner.signalCode !== null) return;
    runner.kill(signal);
    await once(runner, "exit");
  };
  const heard = (what) => until(`the machine says ${what}`, () => runner.said.match(what) || (runner.exitCode !== null && Promise.reject(new Error(`failed: it ended: ${runner.said}`))));
  const terminal = () => page.locator(".xterm-rows");

  test("it is connected with the lines the page shows, and turns up by itself", async () => {
    await page.goto(`${instance.url}/${instance.team}/machines`);
    await page.getByRole("link", { name: /Connect a machine/ }).click();
    const dialog = page.getByRole("dialog", { name: "Connect a machine" });
    await dialog.getByLabel("Name", { exact: true }).fill("Work Laptop");
    await dialog.getByRole("radio", { name: /^In Docker Each/ }).check();
    await dialog.getByRole("radio", { name: /The machine's network/ }).check();
    await dialog.getByRole("button", { name: "Show the command" }).click();
    const lines = dialog.locator("code.select-all");
    await until("both lines are there", async () => (await lines.count()) === 2);
    const [download, start] = await lines.allTextContents();
    assert.match(start, /^\.\/parawork runner --server http\S+ --token pw_runner_\S+/);
    const fetched = type(download);
    const [code] = await once(fetched, "exit");
    assert.equal(code, 0, fetched.said);
    assert.ok(existsSync(join(home, "parawork")));
    await dialog.getByText("Waiting for the machine…").waitFor();
    command = start;
    runner = type(`exec ${start}`);
    await dialog.getByText("Work Laptop is connected").waitFor();
    await shot(page, "machine-real-connected");
    assert.deepEqual(await axe(page), []);
    await dialog.getByRole("button", { name: "Done" }).click();
    const row = page.getByRole("main").getByRole("link", { name: /Work Laptop/ });
    await row.getByText("Online", { exact: true }).waitFor();
    await row.getByText(/Docker, ubuntu:latest/).waitFor();
  });

  test("a workspace lives there, and its shell runs in a container of the machine", async () => {
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, { source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    await compose.chip("Where it runs: Work Laptop").waitFor(); // the only machine is chosen already
    await compose.prompt.fill("On the laptop");
    await compose.agent(/^Shell/);
    await compose.create.click();
    await page.getByRole("heading", { name: "On the laptop" }).waitFor();
    workspace = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.name === "On the laptop");
    assert.deepEqual([workspace.executor, workspace.runner_name], ["runner", "Work Laptop"]);
    await page.locator("[data-link=live]").waitFor();
    await page.locator(".xterm-screen").click();
    await page.keyboard.type("echo at-$((40+2)); test -e /.dockerenv && echo in-a-container; i=0; while :; do i=$((i+1)); echo tick-$i; sleep 0.2; done\n");
    await terminal().getByText("at-42", { exact: true }).waitFor();
    await terminal().getByText("in-a-container", { exact: true }).waitFor();
    await shot(page, "machine-real-shell");
    assert.deepEqual(page.problems, []);
  });

  test("away, it is waited for; back, nothing that ran there is missing", async () => {
    const [session] = (await instance.api("GET", `/workspaces/${workspace.id}/sessions`)).items;
    await end("SIGKILL");
    const bar = page.getByRole("region", { name: "Work Laptop is offline" });
    await bar.getByText(/Work Laptop has been offline since/).waitFor();
    await shot(page, "machine-real-offline");
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await bar.getByRole("button", { name: "Wait" }).click();
    await page.getByText(/has been offline since .*\. Waiting for the machine\./).waitFor();
    await page.getByText("What you type now is not sent.", { exact: false }).waitFor();
    const before = Number((await instance.output(session.id)).match(/tick-(\d+)\s*$/)?.[1] ?? 0);
    runner = type("exec ./parawork runner");
    await page.getByText(/Waiting for the machine\./).waitFor({ state: "detached" });
    const text = await until("the shell went on", async () => {
      const all = await instance.output(session.id);
      return Number(all.match(/tick-(\d+)\s*$/)?.[1] ?? 0) > before + 3 && all;
    });
    const ticks = [...text.matchAll(/^tick-(\d+)\r?$/gm)].map((m) => Number(m[1]));
    assert.deepEqual(ticks, ticks.map((_, i) => i + 1), "every tick once, in order");
    assert.equal((await instance.api("GET", `/sessions/${session.id}`)).id, session.id);
    assert.notEqual((await instance.api("GET", `/sessions/${session.id}`)).state, "lost");
  });

  test("Ctrl-C says what runs and marks it offline at once, with the reason in its history", async () => {
    await page.goto(`${instance.url}/${instance.team}/machines`);
    await page.getByRole("main").getByRole("link", { name: /Work Laptop/ }).click();
    await page.getByRole("heading", { name: "Work Laptop", level: 1 }).waitFor();
    await page.getByText("Connected now").waitFor();
    await page.getByRole("link", { name: "On the laptop", exact: true }).filter({ visible: true }).first().waitFor();
    await shot(page, "machine-real-page");
    assert.deepEqual(await axe(page), []);
    await end("SIGINT");
    await page.getByRole("status").getByText("Offline", { exact: true }).waitFor();
    await until("it says what goes on", () => /PW-\d+|On the laptop|sandbox|session/i.test(runner.said));
    runner = type("exec ./parawork runner");
    await page.getByRole("status").getByText("Online", { exact: true }).waitFor();
  });

  test("renamed and revoked, the machine is notified and never reconnects", async () => {
    await page.getByRole("button", { name: "Rename" }).click();
    const dialog = page.getByRole("dialog", { name: "Rename Work Laptop" });
    await dialog.getByLabel("Name").fill("Old laptop");
    await dialog.getByRole("button", { name: "Rename" }).click();
    await page.getByRole("heading", { name: "Old laptop", level: 1 }).waitFor();
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
    await page.waitForURL(/\/machines$/);
    await heard(/revoked/i);
    const again = type(`exec ${command}`);
    await once(again, "exit");
    assert.notEqual(again.exitCode, 0, "the token was used up");
    assert.deepEqual(page.problems, []);
  });

  test("without isolation it is marked; its owner's folder becomes a project, and their yes is waited for", async () => {
    const repository = join(home, "shop");
    const git = (...args) => execFileSync("git", ["-C", repository, "-c", "user.name=Mika", "-c", "user.email=mika@example.com", ...args], { encoding: "utf8" });
    mkdirSync(repository);
    git("init", "-qb", "main");
    writeFileSync(join(repository, "README.md"), "# Shop\n");
    git("add", "-A");
    git("commit", "-qm", "Begin");
    await page.goto(`${instance.url}/${instance.team}/machines?connect=1`);
    const connect = page.getByRole("dialog", { name: "Connect a machine" });
    await connect.getByLabel("Name", { exact: true }).fill("Tower");
    await connect.getByRole("radio", { name: /Directly on the machine/ }).check();
    await connect.getByRole("checkbox", { name: /I understand/ }).check();
    await connect.getByRole("button", { name: "Show the command" }).click();
    const lines = connect.locator("code.select-all");
    await until("both lines are there", async () => (await lines.count()) === 2);
    const start = (await lines.allTextContents())[1];
    assert.match(start, / --dangerous/);
    runner = type(`exec ${start} --access ask --folder ${repository}`);
    await connect.getByText("Tower is connected").waitFor();
    await connect.getByRole("listitem").getByText("DANGEROUS").waitFor();

    await page.goto(`${instance.url}/${instance.team}/p?add=machine`);
    const add = page.getByRole("dialog", { name: "Add a project" });
    await add.getByRole("radio", { name: /shop/ }).check();
    await add.getByRole("button", { name: "Add", exact: true }).click();
    const waits = page.getByRole("region", { name: /Waiting for your approval/ });
    await waits.getByText(/read the repository in/).waitFor();
    await shot(page, "machine-real-asks-project");
    await allow();
    const project = await until("the project is ready", async () => (await instance.api("GET", `/teams/${instance.team}/projects`)).items.find((p) => p.name === "shop" && p.state === "ready"));

    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    const place = await compose.open("Where it runs");
    assert.ok(await place.getByRole("radio", { name: /Tower/ }).isChecked());
    await place.getByText("DANGEROUS").waitFor();
    await page.getByText(/The project's own: .*shop/).waitFor({ state: "attached" });
    await compose.close();
    await compose.prompt.fill("In the shop");
    await compose.agent(/^None/);
    await compose.create.click();
    await page.getByRole("heading", { name: "In the shop" }).waitFor();
    await page.getByRole("heading", { level: 1 }).locator("..").getByText("DANGEROUS").waitFor();
    await waits.getByText(/read the repository in/).waitFor();
    await allow();
    await waits.getByText(/make a sandbox/).waitFor();
    await shot(page, "machine-real-asks");
    assert.deepEqual(await axe(page), []);
    await allow("--always");
    assert.deepEqual(page.problems, []);
  });

  /** Allows the waiting question at the machine. */
  const allow = async (...how) => {
    const [, id] = await heard(/QUESTION (\S+)/);
    runner.said = "";
    const answer = type(`./parawork runner allow ${id} ${how.join(" ")}`);
    await once(answer, "exit");
    assert.equal(answer.exitCode, 0, answer.said);
  };
});
