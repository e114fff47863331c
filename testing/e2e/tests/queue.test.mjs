// Checks beside the merge, the merge queue and conflicts that are seen coming: settings, the Merge tab, the project's page, marks.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("queue", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let project;
  const spaces = {};
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start();
    await instance.setUp();
    project = await instance.api("POST", `/teams/${instance.team}/projects`, { source: { kind: "sample" } });
    await until(
      "the project is ready",
      async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready",
    );
    for (const name of ["one", "two"]) {
      const w = await instance.api("POST", `/teams/${instance.team}/workspaces`, { project_id: project.id, name });
      await until(`${name} is ready`, async () => (await instance.api("GET", `/workspaces/${w.id}`)).state === "ready");
      spaces[name] = w;
      await instance.api("POST", `/workspaces/${w.id}/exec`, { command: `echo ${name} > same.txt`, timeout_ms: 30000 });
    }
    const w = spaces.one;
    await instance.api("POST", `/workspaces/${w.id}/sync`);
    await instance.api("POST", `/workspaces/${w.id}/commit`, { message: "add same.txt" });
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("write a check, run it, merge through the queue, see the conflict", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/p/${project.id}`);
    await page.getByRole("button", { name: "Add a check" }).click();
    await page.getByLabel("Check name").fill("Tests");
    await page.getByPlaceholder("npm test").fill("cat same.txt && echo all is well");
    await page.getByLabel("Merge through the queue only").check();
    assert.deepEqual(await axe(page), []);
    await page.getByRole("button", { name: "Save checks and merging" }).click();
    await until("it is saved", async () => (await instance.api("GET", `/projects/${project.id}`)).checks.length === 1);

    await page.goto(`${instance.url}/${instance.team}/w/${spaces.one.key}?tab=merge`);
    await page
      .getByText(/conflicts with .* in 1 file/)
      .first()
      .waitFor();
    const checks = page.getByRole("region", { name: "Checks" });
    await checks.getByRole("button", { name: "Run checks" }).click();
    await checks.getByText("Passed").first().waitFor();
    await checks.getByRole("button", { name: "Output of Tests" }).click();
    await checks.getByText("all is well", { exact: false }).last().waitFor();
    await page.getByRole("region", { name: "Conflicts with other workspaces" }).getByText("same.txt").waitFor();
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await shot(page, "queue-checks");

    const queue = page.getByRole("region", { name: "Merge queue" });
    await queue.getByRole("button", { name: "Add to the queue" }).click();
    await queue.getByText("Merged", { exact: true }).waitFor();
    await until(
      "it is merged",
      async () => (await instance.api("GET", `/workspaces/${spaces.one.id}`)).merged_at !== null,
    );
    await shot(page, "queue-merged");

    await page.goto(`${instance.url}/${instance.team}/p/${project.id}`);
    const list = page.getByRole("region", { name: "Merge queue" });
    await list.getByText("Recently finished").click();
    await list.getByRole("link", { name: new RegExp(spaces.one.key) }).waitFor();
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
