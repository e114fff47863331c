// A workspace in a cloud place, from the key to the end of its sandbox, as a person sees it: the real server, and a stand-in for E2B
// that runs real sandboxes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Cloud, haveCloud } from "../lib/cloud.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const skip = !haveChromium ? "Chromium is not installed" : !haveCloud && "bubblewrap does not work here";

describe("a cloud place", { skip }, () => {
  let cloud;
  let instance;
  let browser;
  let page;
  let project;
  let workspace;
  before(async () => {
    if (skip) return;
    cloud = await Cloud.start();
    // The addresses are the server's own; the key is entered in the browser.
    const { apiUrl, sandboxUrl } = cloud.config;
    instance = await Instance.start({ sandboxing: { defaultProvider: "auto", monthlyBudgetUsd: 500, e2b: { apiKey: "", apiUrl, sandboxUrl, fallbackToLocal: true } } });
    await instance.setUp();
    project = await instance.api("POST", `/teams/${instance.team}/projects`, { name: "Harbour", source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    browser = await launch(["--disable-3d-apis"]);
    page = await newPage(browser, { colorScheme: "dark", reducedMotion: "reduce" });
    await signIn(page, instance, password);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    await cloud?.stop();
  });

  const go = (path) => page.goto(`${instance.url}/${instance.team}${path}`);
  const fine = async (name) => {
    await shot(page, name);
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
  };

  test("an operator enters the key, which is tried and never shown again", async () => {
    await go("/settings/places");
    const form = page.getByRole("form", { name: /E2B/ });
    await page.getByRole("button", { name: "Add a place" }).click();
    await page.getByRole("button", { name: "Set up E2B" }).click();
    await form.getByLabel("API key").fill("e2b_0000000000000000000000000000000000000000");
    await form.getByRole("button", { name: "Test" }).click();
    await form.getByText(/does not take/).first().waitFor();
    await form.getByLabel("API key").fill(cloud.api_key);
    await form.getByRole("button", { name: "Test" }).click();
    await form.getByText(/^Works/).first().waitFor();
    await form.getByRole("button", { name: "Save E2B" }).click();
    await page.getByText("Saved", { exact: true }).first().waitFor();
    assert.equal(await form.getByLabel("API key").inputValue(), "");
    await form.getByPlaceholder(`stored, ends in ${cloud.api_key.slice(-4)}`).waitFor();
    await form.getByRole("radio", { name: /2 cores, 2 GB by default/ }).waitFor();
    assert.doesNotMatch(await page.content(), new RegExp(cloud.api_key));
    page.problems.length = 0; // the browser may log a refused key as a network error
    await fine("cloud-key");
  });

  test("a region is added and removed, but not while something lives there", async () => {
    await go("/settings/places");
    await page.getByRole("button", { name: "Settings E2B", exact: true }).click();
    await page.getByLabel("Another region of E2B").fill("eu");
    await page.getByRole("button", { name: "Add region" }).click();
    const region = page.getByRole("form", { name: "E2B · eu" });
    await region.getByLabel("Name of the region").fill("Europe");
    await region.getByRole("button", { name: "Save E2B · eu" }).click();
    await page.getByRole("heading", { name: "E2B · Europe" }).waitFor();
    const one = await instance.api("POST", `/teams/${instance.team}/workspaces`, { project_id: project.id, name: "In Europe", executor: "e2b@eu" });
    await until("it is ready", async () => (await instance.api("GET", `/workspaces/${one.id}`)).state === "ready");
    await instance.api("POST", `/workspaces/${one.id}/exec`, { command: "true" });
    const remove = async () => {
      await page.getByRole("button", { name: "Remove region E2B · Europe" }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: "Remove region" }).click();
    };
    await remove();
    await page.getByText("1 sandbox of a workspace is in this region.").waitFor();
    await instance.api("POST", `/workspaces/${one.id}/destroy-sandbox`);
    await until("it has ended", async () => ["gone", "failed"].includes((await instance.api("GET", `/workspaces/${one.id}/sandbox`)).state));
    await remove();
    await page.getByRole("heading", { name: "E2B · Europe" }).waitFor({ state: "detached" });
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
  });

  test("a workspace starts there in steps that are named", async () => {
    await go(`/w?new=${project.id}`);
    const compose = composer(page);
    await compose.prompt.fill("In the cloud");
    await compose.agent(/^Shell/);
    await (await compose.open("Where it runs")).getByRole("radio", { name: /E2B/ }).check();
    await page.getByText(/\$0\.\d+ an hour while it runs/).first().waitFor();
    await page.getByRole("checkbox", { name: /start on this server instead/ }).check();
    await compose.close();
    await compose.create.click();
    await page.getByRole("heading", { name: "In the cloud" }).waitFor();
    workspace = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.name === "In the cloud");
    assert.deepEqual([workspace.executor, workspace.fallback_ok], ["e2b", true]);
    await page.locator("[data-terminal]").first().waitFor({ timeout: 120_000 });
    const sandbox = await instance.api("GET", `/workspaces/${workspace.id}/sandbox`);
    assert.equal(sandbox.state, "running");
    assert.ok(sandbox.steps.length >= 3 && sandbox.steps.every((s) => s.state === "done"), JSON.stringify(sandbox.steps));
    await fine("cloud-real-terminal");
  });

  test("files written there are synced and shown", async () => {
    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.type("echo from remote > remote.txt\n");
    const done = await until("the file is synced", async () => (await instance.api("GET", `/workspaces/${workspace.id}/changes`)).items.find((c) => c.path === "remote.txt"));
    assert.equal(done.status, "untracked");
    await page.getByText(/Synced (just now|\d+ s ago)/).first().waitFor();
    await go(`/w/${workspace.key}?tab=changes`);
    await page.getByText("from remote").first().waitFor();
    await page.getByRole("button", { name: "Sync now" }).click();
    await page.getByText("All files are synced").first().waitFor();
    await fine("cloud-real-changes");
  });

  test("it is paused and woken, and its screen stays", async () => {
    await go(`/w/${workspace.key}?tab=shell`);
    await page.getByText("echo from remote").first().waitFor();
    await go(`/w/${workspace.key}?tab=shell&dialog=place`);
    const dialog = page.getByRole("dialog", { name: /Place of/ });
    await dialog.getByRole("button", { name: "Pause" }).click();
    await dialog.getByRole("button", { name: "Wake" }).waitFor();
    assert.equal((await instance.api("GET", `/workspaces/${workspace.id}/sandbox`)).state, "paused");
    await fine("cloud-real-paused");
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByText("echo from remote").first().waitFor();
    await page.getByText(/Press Wake to continue\./).waitFor();
    await page.getByRole("button", { name: "Wake", exact: true }).click();
    await until("it runs again", async () => (await instance.api("GET", `/workspaces/${workspace.id}/sandbox`)).state === "running");
    await page.getByRole("button", { name: "Wake", exact: true }).waitFor({ state: "detached" });
    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.type("cat remote.txt | tr a-z A-Z\n");
    await page.getByText("FROM REMOTE").first().waitFor();
    assert.deepEqual(page.problems, []);
  });

  test("its cost is counted and shown", async () => {
    await until("the workspace has cost something", async () => (await instance.api("GET", `/workspaces/${workspace.id}`)).cost_nano > 0);
    await go("/settings/metrics");
    await page.getByRole("region", { name: "Cost by workspace" }).getByText(/In the cloud/).waitFor();
    await page.getByRole("region", { name: "By place" }).getByRole("columnheader", { name: "E2B" }).waitFor();
    await fine("cloud-real-metrics");
  });

  test("it is ended, and synced files stay", async () => {
    await go(`/w/${workspace.key}?dialog=place`);
    const dialog = page.getByRole("dialog", { name: /Place of/ });
    await dialog.getByRole("button", { name: "End", exact: true }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "End" }).click();
    await dialog.getByText(/Nothing is running/).waitFor();
    await until("E2B has no sandbox left", async () => (await cloud.sandboxes()).length === 0);
    await go(`/w/${workspace.key}?tab=changes`);
    await page.getByText("from remote").first().waitFor();
    assert.deepEqual(page.problems, []);
  });

  test("an unreachable place says so, and the workspace continues here on request", async () => {
    await instance.api("PATCH", `/workspaces/${workspace.id}`, { fallback_ok: false }); // nothing by itself
    await cloud.stop();
    await go(`/w/${workspace.key}?tab=shell&session=`);
    await page.getByRole("button", { name: "New session, shell or split" }).click();
    await page.getByRole("menuitem", { name: "Open a shell" }).click();
    const panel = page.getByRole("alert").filter({ hasText: "is not available" });
    await panel.waitFor({ timeout: 120_000 });
    page.problems.length = 0;
    await fine("cloud-real-outage");
    await panel.getByRole("button", { name: "Try local mode" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Try local mode" }).click();
    await page.getByText(/is now in /).first().waitFor();
    const moved = await instance.api("GET", `/workspaces/${workspace.id}`);
    assert.notEqual(moved.executor, "e2b");
    // It continues here with the synced files.
    const read = await instance.api("POST", `/workspaces/${workspace.id}/exec`, { command: "cat remote.txt", timeout_ms: 60_000 });
    assert.equal(read.stdout.trim(), "from remote");
  });
});
