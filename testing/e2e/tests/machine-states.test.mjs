// What the browser shows of members' machines, state by state, in both themes and on a phone.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { farAway, place, sandbox } from "../lib/cloud-fixtures.mjs";
import { Instance, password } from "../lib/instance.mjs";
import { asPlace, away, enrolment, haveMachines, machine, tower } from "../lib/machines.mjs";

describe("machines", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let workspace;
  let signedIn;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start();
    await instance.setUp();
    workspace = await instance.workspace("On the laptop");
    await instance.api("POST", `/workspaces/${workspace.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo the kept screen; exec cat"] });
    browser = await launch(["--disable-3d-apis"]);
    const page = await newPage(browser);
    await signIn(page, instance, password);
    signedIn = await page.context().storageState();
    await page.context().close();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  const LOOKS = { wide: ["dark", 1440, 900], phone: ["light", 390, 844] };
  const start = async (look) => {
    const [colorScheme, width, height] = LOOKS[look];
    const phone = look === "phone";
    const page = await newPage(browser, { colorScheme, viewport: { width, height }, hasTouch: phone, isMobile: phone, reducedMotion: "reduce", storageState: signedIn });
    return page;
  };
  const open = async (look, path, state) => {
    const page = await start(look);
    page.state = { machines: [], made: enrolment(instance.url), ...state };
    await haveMachines(page, page.state);
    await page.goto(`${instance.url}/${instance.team}${path}`);
    return page;
  };
  const sound = async (page, name) => {
    await shot(page, name);
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
  };
  const done = async (page, name) => {
    await sound(page, name);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.context().close();
  };
  const many = () => [
    machine({ workspaces: [{ id: "w1", key: "HA-7", name: "Retry webhooks", state: "ready" }] }),
    tower({ questions: [{ id: "q7", workspace_id: "w9", text: "Start claude in HA-9?", asked_at: Date.now() - 40_000 }] }),
    away(),
  ];

  for (const look of ["wide", "phone"]) {

    test(`machines are listed with how they are, and what is dangerous says so, ${look}`, async () => {
      const page = await open(look, "/machines", {
        machines: many(),
        tokens: [{ id: "rtk_2", name: "Lab", user_id: "u", user_name: "Mika", reusable: true, runner_id: null, uses: 3, created_at: Date.now() - 9e6, used_at: Date.now() - 8e6, expires_at: null, mine: true }],
      });
      const laptop = page.getByRole("link", { name: /Work Laptop/ });
      await laptop.getByText("Online", { exact: true }).waitFor();
      await laptop.getByText("34 % CPU, 6 GB of 16 GB").waitFor();
      const mac = page.getByRole("link", { name: /Tower/ });
      await mac.getByText("DANGEROUS").waitFor();
      await mac.getByText("1 question waiting for approval at the machine").waitFor();
      assert.equal(await laptop.getByText("DANGEROUS").count(), 0);
      const box = page.getByRole("region", { name: "Shared with the team" }).getByRole("link");
      await box.getByText("Offline", { exact: true }).waitFor();
      await box.getByText(/since .*: No sign of life for 25s/).waitFor();
      await sound(page, `machines-${look}`);
      await page.getByRole("button", { name: "Revoke the token Lab" }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
      await page.waitForFunction(() => document.querySelector("[role=alertdialog]") === null);
      assert.deepEqual(page.state.sent, [["DELETE", "/runner-tokens/rtk_2", null]]);
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.context().close();
    });

    test(`a machine is connected with a line to copy, and turns up by itself, ${look}`, async () => {
      const page = await open(look, "/machines?connect=1", { machines: [] });
      const dialog = page.getByRole("dialog", { name: "Connect a machine" });
      await dialog.getByLabel("Name", { exact: true }).fill("Work Laptop");
      await dialog.getByRole("radio", { name: /Directly on the machine/ }).check();
      const show = dialog.getByRole("button", { name: "Show the command" });
      assert.ok(await show.isDisabled());
      await dialog.getByText(/read, change and delete everything/).waitFor();
      await shot(page, `connect-dangerous-${look}`);
      await dialog.getByRole("checkbox", { name: /I understand/ }).check();
      assert.ok(await show.isEnabled());
      await dialog.getByRole("radio", { name: /^In Docker Each/ }).check();
      await dialog.getByRole("textbox", { name: "Image" }).fill("kalilinux/kali-rolling");
      await sound(page, `connect-${look}`);
      await show.click();
      await dialog.getByText("Waiting for the machine…").waitFor();
      assert.deepEqual(page.state.sent, [["POST", `/teams/${instance.team}/runners`, { name: "Work Laptop", mode: "docker", dangerous: false, image: "kalilinux/kali-rolling", reusable: false }]]);
      await dialog.getByText(page.state.made.command, { exact: false }).waitFor();
      await dialog.getByLabel("The machine runs").selectOption("darwin-arm64");
      await dialog.getByText(/parawork-darwin-arm64/).waitFor();
      await dialog.getByLabel("The machine runs").selectOption("darwin-amd64");
      await dialog.getByText(/does not have the program yet: Not built on this server yet/).waitFor();
      await dialog.getByLabel("The machine runs").selectOption("linux-amd64");
      await sound(page, `connect-command-${look}`);
      page.state.machines = [machine()];
      await dialog.getByText("Work Laptop is connected").waitFor();
      await sound(page, `connect-there-${look}`);
      await dialog.getByRole("button", { name: "Done" }).click();
      await page.getByRole("link", { name: /Work Laptop/ }).waitFor();
      await page.context().close();
    });

    test(`a machine's page says what its owner decided and when it came and went, ${look}`, async () => {
      const page = await open(look, "/machines/run_tower", { machines: many() });
      await page.getByRole("heading", { name: "Tower", level: 1 }).waitFor();
      await page.getByText("DANGEROUS").first().waitFor();
      await page.getByText("parawork runner allow q7", { exact: true }).waitFor();
      await page.getByText("The machine asks its owner before anything starts or writes.").waitFor();
      await page.getByText("No sign of life for 25s.").waitFor();
      await page.getByText("Connected now").waitFor();
      await page.getByText(/This server offers version 1\.4\.0/).waitFor();
      await sound(page, `machine-${look}`);
      await page.getByRole("button", { name: "Rename" }).click();
      const dialog = page.getByRole("dialog", { name: "Rename Tower" });
      await dialog.getByLabel("Name").fill("Old tower");
      await dialog.getByRole("button", { name: "Rename" }).click();
      await page.getByRole("heading", { name: "Old tower", level: 1 }).waitFor();
      await page.getByRole("button", { name: "New key" }).click();
      await page.getByRole("alertdialog").getByText(/drops its connection immediately/).waitFor();
      await page.getByRole("alertdialog").getByRole("button", { name: "Regenerate" }).click();
      const renewed = page.getByRole("dialog", { name: "New key for Old tower" });
      await renewed.getByText("Waiting for the machine…").waitFor();
      page.state.machines[1].connected_at = Date.now();
      await renewed.getByText("Old tower is connected").waitFor();
      await renewed.getByRole("button", { name: "Done" }).click();
      await page.getByRole("button", { name: "Revoke" }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
      await page.waitForURL(/\/machines$/);
      assert.deepEqual(page.state.sent.map(([m, p]) => `${m} ${p}`), ["PATCH /runners/run_tower", "POST /runners/run_tower/regenerate", "DELETE /runners/run_tower"]);
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.context().close();
    });

    test(`with several machines the place is asked for, ${look}`, async () => {
      const machines = [machine(), tower(), away()];
      const page = await open(look, `/w?new=${workspace.project_id}`, { machines, suggested: { executor: "", runner_id: "", ask: true, reason: "Several of your machines are connected." } });
      const compose = composer(page);
      await compose.prompt.fill("On a machine");
      await compose.agent(/^None/);
      await compose.form.getByText("Choose where it runs.").waitFor();
      assert.ok(await compose.create.isDisabled());
      const choice = await compose.open("Where it runs");
      const laptop = choice.getByRole("radio", { name: /Work Laptop/ });
      await laptop.waitFor();
      await page.getByText("Several of your machines are connected. Choose one.").waitFor();
      await choice.getByRole("button", { name: /^More: / }).click();
      assert.ok(await choice.getByRole("radio", { name: /Build box/ }).isDisabled());
      await choice.getByText("Offline since 14:02.").waitFor();
      await choice.getByText("DANGEROUS").waitFor();
      await choice.getByText("DANGEROUS").scrollIntoViewIfNeeded();
      await sound(page, `place-machines-${look}`);
      await choice.getByRole("radio", { name: /Tower/ }).check();
      await page.getByText(/You are asked for approval at the machine before anything starts there/).waitFor();
      await laptop.check();
      await page.getByLabel("Repository on Work Laptop").selectOption("/home/mika/code/shop");
      await page.getByLabel("Repository on Work Laptop").scrollIntoViewIfNeeded();
      let sent;
      await page.route(/\/api\/v1\/teams\/[^/]+\/workspaces$/, (r) => {
        if (r.request().method() !== "POST") return r.fallback();
        sent = r.request().postDataJSON();
        return r.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ code: "place_cannot_serve", message: "Work Laptop does not answer.", details: {}, request_id: "r" }) });
      });
      await compose.close();
      await compose.create.click();
      await page.getByText("Work Laptop does not answer.").waitFor();
      assert.deepEqual([sent.executor, sent.runner_id, sent.runner_folder], ["runner", "run_work", "/home/mika/code/shop"]);
      await done(page, `place-chosen-${look}`);
    });

    test(`a project is a folder of a machine, ${look}`, async () => {
      const page = await open(look, "/p?add=machine", { machines: [machine(), away()] });
      const dialog = page.getByRole("dialog", { name: "Add a project" });
      const add = dialog.getByRole("button", { name: "Add", exact: true });
      assert.ok(await add.isDisabled());
      assert.ok(await dialog.getByRole("radio", { name: /notes/ }).isDisabled());
      await dialog.getByRole("radio", { name: /shop/ }).check();
      await sound(page, `project-machine-${look}`);
      let sent;
      await page.route(/\/api\/v1\/teams\/[^/]+\/projects$/, (r) => {
        if (r.request().method() !== "POST") return r.fallback();
        sent = r.request().postDataJSON();
        return r.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ code: "runner_outside", message: "Work Laptop does not allow this folder any more.", details: { field: "path" }, request_id: "r" }) });
      });
      await add.click();
      await dialog.getByText("Work Laptop does not allow this folder any more.").waitFor();
      assert.deepEqual(sent, { source: { kind: "runner", runner_id: "run_work", path: "/home/mika/code/shop" } });
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.context().close();
    });

    /** The workspace as it is while it lives on a machine. */
    const onMachine = async (m, over = {}) => {
      const page = await start(look);
      const there = { runner_id: m.id, executor: "runner" };
      const state = {
        place: asPlace(m),
        sandbox: sandbox({ ...there, price_nano_per_hour: 0, machine: { name: m.name, os: m.os, arch: m.arch, mode: m.mode, online: m.state === "online", offline_since: m.offline_at, reason: m.offline_reason } }),
        workspace: { ...there, runner_name: m.name, boundary: m.boundary, cost_nano: 0, ...over.workspace },
        answers: {},
      };
      await haveMachines(page, { machines: [m], made: enrolment(instance.url) });
      await farAway(page, workspace.id, state);
      await page.route(new RegExp(`/api/v1/workspaces/${workspace.id}/places$`), (r) =>
        r.fulfill({ contentType: "application/json", body: JSON.stringify({ executor: "runner", movable: true, reason: "", items: [{ executor: asPlace(m), changes: [] }, { executor: place(), changes: ["Agents live in a virtual machine at E2B."] }] }) }),
      );
      await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}${over.path ?? "?tab=activity"}`);
      return Object.assign(page, { there: state });
    };

    test(`work on a dangerous machine is marked everywhere, and says what its owner is asked, ${look}`, async () => {
      const m = tower({ questions: [{ id: "q7", workspace_id: workspace.id, text: "Start claude in this workspace?", asked_at: Date.now() - 40_000 }] });
      const page = await onMachine(m);
      await page.getByRole("heading", { level: 1 }).locator("..").getByText("DANGEROUS").waitFor();
      await page.getByText("Waiting for your approval at Tower").waitFor();
      await page.getByText("parawork runner allow q7").waitFor();
      await sound(page, `workspace-asks-${look}`);
      await page.goto(`${instance.url}/${instance.team}/w`);
      const row = page.getByRole("row", { name: /On the laptop/ });
      await row.getByText("DANGEROUS").waitFor();
      await done(page, `workspaces-dangerous-${look}`);
    });

    test(`a machine that is away is waited for, or left, when somebody says so, ${look}`, async () => {
      const m = machine({ state: "offline", offline_at: Date.now() - 600_000, offline_reason: "No sign of life for 25s.", connected_at: null });
      const page = await onMachine(m, { path: "?tab=shell" });
      const bar = page.getByRole("region", { name: "Work Laptop is offline" });
      await bar.getByText(/Work Laptop has been offline since \d/).waitFor();
      await bar.getByText(/No sign of life for 25s/).waitFor();
      const go = bar.getByRole("button", { name: /Continue in E2B from the last synced state, \$0\.13 an hour/ });
      await go.waitFor();
      await page.getByText("No shell open").waitFor();
      await sound(page, `workspace-offline-${look}`);
      await bar.getByRole("button", { name: "Wait" }).click();
      await page.getByText(/has been offline since .*\. Waiting for the machine\./).waitFor();
      await page.reload();
      await page.getByText(/has been offline since .*\. Waiting for the machine\./).waitFor();
      await shot(page, `workspace-waits-${look}`);
      await page.getByRole("button", { name: "Choose again" }).click();
      let moved;
      await page.route(new RegExp(`/api/v1/workspaces/${workspace.id}$`), (r) => {
        if (r.request().method() !== "PATCH") return r.fallback();
        moved = r.request().postDataJSON();
        Object.assign(page.there.workspace, { executor: "e2b", runner_id: undefined, runner_name: undefined });
        return r.fulfill({ contentType: "application/json", body: JSON.stringify({ ...workspace, executor: "e2b" }) });
      });
      await go.click();
      const ask = page.getByRole("alertdialog");
      await ask.getByText("Agents live in a virtual machine at E2B.").waitFor();
      await ask.getByText(/saved as a snapshot/).waitFor();
      await shot(page, `workspace-continue-${look}`);
      await ask.getByRole("button", { name: "Continue in E2B" }).click();
      await page.getByText(`${workspace.key} continues in E2B`).first().waitFor();
      assert.deepEqual(moved, { executor: "e2b" });
      await bar.waitFor({ state: "detached" });
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.context().close();
    });
  }

  test("nothing connected yet: one sentence and one button", async () => {
    const page = await open("wide", "/machines", {});
    await page.getByRole("heading", { name: "No machine connected yet" }).waitFor();
    assert.equal(await page.getByRole("link", { name: /Connect a machine/ }).count(), 1);
    await done(page, "machines-none");
  });

  test("another member's machine offers nothing that is not one's to do", async () => {
    const page = await open("wide", "/machines/run_nas", { machines: many() });
    await page.getByRole("heading", { name: "Build box in the cellar", level: 1 }).waitFor();
    await page.getByText("Ana's.").waitFor();
    for (const name of ["Rename", "New key", "Revoke"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    await done(page, "machine-other");
  });

  test("the one machine that is connected is chosen already", async () => {
    const page = await open("wide", `/w?new=${workspace.project_id}", { machines: [machine()], suggested: { executor: "runner", runner_id: "run_work", ask: false } });
    const laptop = (await composer(page).open("Where it runs")).getByRole("radio", { name: /Work Laptop/ });
    await laptop.waitFor();
    assert.ok(await laptop.isChecked());
    assert.equal(await page.getByText(/machines are connected/).count(), 0);
    await done(page, "place-one`);
  });

  test("the branch is delivered into the folder's repository", async () => {
    const m = machine();
    const page = await start("wide");
    await haveMachines(page, { machines: [m], made: enrolment(instance.url) });
    await farAway(page, workspace.id, {
      place: asPlace(m),
      sandbox: sandbox({ executor: "runner", runner_id: m.id }),
      workspace: { executor: "runner", runner_id: m.id, runner_name: m.name, runner_folder: "/home/mika/code/shop", boundary: "container", cost_nano: 0 },
      answers: { [`/workspaces/${workspace.id}/deliver`]: (r, json) => json(r, { branch: workspace.branch, commit: "0123456789abcdef0123456789abcdef01234567" }) },
    });
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?tab=activity`);
    await page.getByRole("button", { name: "Deliver" }).click();
    await page.getByRole("alertdialog").getByText(/Files checked out there do not change/).waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Deliver" }).click();
    await page.getByText(/At commit 01234567, in \/home\/mika\/code\/shop/).first().waitFor();
    await done(page, "workspace-delivered");
  });
});
