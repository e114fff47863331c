// Where workspaces live: chosen, bounded, watched and moved in the browser, in the real process sandbox.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const sandbox = spawnSync("bwrap", ["--unshare-user", "--ro-bind", "/", "/", "true"]).status === 0;

describe("places", {
  skip: !haveChromium ? "Chromium is not installed" : !sandbox && "bubblewrap does not work here",
}, () => {
  let instance;
  let browser;
  let workspace;
  before(async () => {
    if (!haveChromium || !sandbox) return;
    instance = await Instance.start({
      sandboxing: {
        defaultProvider: "bubblewrap",
        local: { enabled: true },
        limits: { default: { processes: 300 }, maximum: { memoryMb: 4096 } },
      },
    });
    await instance.setUp();
    browser = await launch(["--disable-3d-apis"]);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  const open = async (size) => {
    const wide = size === "wide";
    const page = await newPage(browser, {
      colorScheme: wide ? "dark" : "light",
      viewport: wide ? { width: 1440, height: 900 } : { width: 390, height: 844 },
      reducedMotion: "reduce",
    });
    await signIn(page, instance, password);
    return page;
  };

  test("a new workspace says where it will live, and lives in the process sandbox", async () => {
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, {
      name: "Harbour",
      source: { kind: "sample" },
    });
    await until(
      "the project is ready",
      async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready",
    );
    const page = await open("wide");
    await page.goto(`${instance.url}/${instance.team}/w?new=${project.id}`);
    const compose = composer(page);
    await compose.agent(/^None/);
    const place = (await compose.open("Where it runs")).getByRole("group", { name: "Place" });
    assert.ok(await place.getByRole("radio", { name: /Process sandbox/ }).isChecked());
    await place
      .getByText(/limits enforced, network restricted/)
      .first()
      .waitFor();
    await shot(page, "places-new");
    assert.deepEqual(await axe(page), []);
    await compose.close();
    await compose.prompt.fill("Kept in");
    await compose.create.click();
    await page.getByRole("heading", { name: "Kept in" }).waitFor();
    workspace = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.name === "Kept in");
    assert.equal(workspace.executor, "bubblewrap");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("limits are set, shown and kept", async () => {
    await until("it is ready", async () => (await instance.api("GET", `/workspaces/${workspace.id}`)).state === "ready");
    await instance.api("POST", `/workspaces/${workspace.id}/exec`, { command: "true" });
    const page = await open("wide");
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}`);
    await page.getByText(/% CPU, \d+ MB/).waitFor();
    await page.getByRole("button", { name: /Process sandbox/ }).click();
    const dialog = page.getByRole("dialog", { name: /Place of/ });
    await dialog.getByText("Memory", { exact: true }).waitFor();
    await dialog.getByLabel("Memory in MB").fill("9000");
    await dialog.getByRole("button", { name: "Save the limits" }).click();
    await dialog
      .getByText(/4 GB|4096/)
      .first()
      .waitFor(); // the maximum is named
    await until("the browser logs the refusal as well", () => page.problems.some((p) => p.includes("400")));
    page.problems.length = 0;
    await dialog.getByLabel("Memory in MB").fill("256");
    await dialog.getByRole("button", { name: "Save the limits" }).click();
    await page.getByText("Applied: 256 MB of memory, 300 processes.").first().waitFor();
    await shot(page, "places-dialog-wide");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
    const hog = await instance.api("POST", `/workspaces/${workspace.id}/exec`, {
      command: "head -c 600m /dev/zero | tail -c 500m | wc -c",
      timeout_ms: 60000,
    });
    assert.notEqual(hog.stdout.trim(), String(500 * 1024 * 1024));
  });

  test("a refused host is shown and allowed", async () => {
    const project = workspace.project_id;
    let page = await open("wide");
    await page.goto(`${instance.url}/${instance.team}/p/${project}`);
    const network = page.getByRole("region", { name: "Network" });
    await network.getByRole("radio", { name: /Names on a list/ }).check();
    await network.getByLabel("Allowed names").fill("*.example.com");
    await network.getByRole("button", { name: "Save the network" }).click();
    await page.getByText("Saved", { exact: true }).first().waitFor();
    await page.getByRole("region", { name: "Image" }).getByText("The server's image").waitFor();
    await shot(page, "places-project");
    assert.deepEqual(await axe(page), []);
    await page.context().close();

    const tried = await instance.api("POST", `/workspaces/${workspace.id}/exec`, {
      command: "curl -sS -m 10 https://refused.invalid/ 2>&1; echo $?",
      timeout_ms: 30000,
    });
    assert.match(tried.stdout, /403|CONNECT/);
    page = await open("phone");
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?dialog=place`);
    const refused = page.getByRole("region", { name: "Blocked" });
    await refused.getByText("refused.invalid", { exact: true }).waitFor();
    await shot(page, "places-dialog-phone");
    assert.deepEqual(await axe(page), []);
    await refused.getByRole("button", { name: /Allow for this workspace.*refused.invalid/ }).click();
    const names = page.getByRole("region", { name: "Allowed names" });
    await names.getByText("refused.invalid", { exact: true }).first().waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
    const list = await instance.api("GET", `/workspaces/${workspace.id}/network`);
    assert.ok(list.names.some((n) => n.name === "refused.invalid" && n.from === "workspace"));
  });

  test("a place is paused and woken", async () => {
    const page = await open("wide");
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?dialog=place`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Wake" }).waitFor();
    assert.equal((await instance.api("GET", `/workspaces/${workspace.id}/sandbox`)).state, "paused");
    await page.getByRole("button", { name: "Wake" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  for (const [size, to] of [
    ["wide", "local"],
    ["phone", "bubblewrap"],
  ]) {
    test(`it goes to ${to}, ${size}`, async () => {
      await instance.api("POST", `/workspaces/${workspace.id}/exec`, { command: "echo draft > draft.txt" });
      const places = (await instance.api("GET", `/workspaces/${workspace.id}/places`)).items;
      const { name } = places.find((p) => p.executor.kind === to).executor;
      const page = await open(size);
      await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}`);
      await page.getByRole("button", { name: "More actions for this workspace" }).click();
      await page.getByRole("menuitem", { name: /Move to another place/ }).click();
      const dialog = page.getByRole("dialog", { name: `Move ${workspace.key} to another place` });
      assert.match(page.url(), /dialog=move/, "moving has an address");
      await dialog
        .getByRole("group", { name: "New place" })
        .getByRole("radio")
        .and(dialog.locator(`[value=${to}]`))
        .check();
      await dialog.getByText(/1 uncommitted file/).waitFor();
      await dialog.getByText("Lost", { exact: true }).waitFor();
      assert.deepEqual(await axe(page), []);
      await shot(page, `places-move-${size}`);
      await dialog.getByRole("button", { name: "Move", exact: true }).click();
      // What is shown before is the question; only a place that is no boundary asks once more.
      if (to === "local") await page.getByRole("alertdialog").getByRole("button", { name: "Move" }).click();
      await dialog.getByText(`Moved to ${name}`, { exact: true }).waitFor();
      await shot(page, `places-moved-${size}`);
      assert.equal((await instance.api("GET", `/workspaces/${workspace.id}`)).executor, to);
      const there = await instance.api("POST", `/workspaces/${workspace.id}/exec`, { command: "cat draft.txt" });
      assert.equal(there.stdout, "draft\n");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  for (const size of ["wide", "phone"]) {
    test(`the team's rules, ${size}`, async () => {
      const page = await open(size);
      await page.goto(`${instance.url}/${instance.team}/settings/places`);
      await page.getByRole("heading", { name: "Places of this server" }).waitFor();
      const weakest = size === "wide" ? /Process sandbox or stronger/ : /^Any/;
      await page.getByRole("radio", { name: weakest }).check();
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await page.getByText("Saved", { exact: true }).first().waitFor();
      await shot(page, `places-team-${size}`);
      assert.deepEqual(await axe(page), []);
      if (size === "wide") {
        await page.goto(`${instance.url}/${instance.team}/w?new=1`);
        const where = await composer(page).open("Where it runs");
        await where.getByRole("button", { name: /^More: / }).click();
        await where
          .getByText(/at least/)
          .first()
          .waitFor();
      }
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  test("who is alone is offered isolation, and takes it with one click", async () => {
    const own = await Instance.start({ sandboxing: {} }); // nobody says a default place
    try {
      await own.setUp();
      const project = await own.api("POST", `/teams/${own.team}/projects`, { name: "Harbour", source: { kind: "sample" } });
      await until("the project is ready", async () => (await own.api("GET", `/projects/${project.id}`)).state === "ready");
      const where = async () => (await own.api("GET", `/teams/${own.team}/place-choice?project_id=${project.id}`)).executor;
      assert.equal(await where(), "local");
      const page = await newPage(browser, { viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
      await signIn(page, own, password);
      await page.goto(`${own.url}/${own.team}/w`);
      const offer = page.getByRole("region", { name: "Agents work on this server without isolation" });
      await offer.getByText("No hourly cost.").first().waitFor();
      await offer.getByText(/\$\d+\.\d+ an hour\./).waitFor(); // a place in the cloud
      await shot(page, "places-alone-phone");
      assert.deepEqual(await axe(page), []);
      await page.setViewportSize({ width: 1440, height: 900 });
      await shot(page, "places-alone-wide");
      await offer.getByRole("button", { name: "Use Process sandbox" }).click();
      await page.getByText("New workspaces live in Process sandbox").first().waitFor();
      await offer.waitFor({ state: "detached" });
      assert.equal(await where(), "bubblewrap");

      await own.api("PUT", "/instance/places", { values: { default_executor: "local" } });
      await page.reload();
      await page.getByRole("heading", { name: "Workspaces" }).first().waitFor();
      assert.equal(await offer.count(), 0, "who said a place is offered no other");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    } finally {
      await own.stop();
    }
  });
});
