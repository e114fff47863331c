// What is used and what it costs, before, while and after, as people see it: the real server, and a stand-in for E2B with real
// sandboxes at a price of a test's own.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Cloud, haveCloud } from "../lib/cloud.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const skip = !haveChromium ? "Chromium is not installed" : !haveCloud && "bubblewrap does not work here";

/** Dollars to the nano-dollar as the pages show them, from whole nano-USD. */
const exact = (nano) => {
  const rest = String(nano % 1e9).padStart(9, "0").replace(/0{1,7}$/, "");
  return `$${Math.trunc(nano / 1e9).toLocaleString("en-US")}.${rest}`;
};

describe("usage and quotas", { skip }, () => {
  let cloud;
  let instance;
  let browser;
  let page;
  let workspace;
  before(async () => {
    if (skip) return;
    cloud = await Cloud.start();
    instance = await Instance.start({ sandboxing: { defaultProvider: "auto", e2b: { ...cloud.config, fallbackToLocal: true } } });
    await instance.setUp();
    // A dollar a second: what runs for a moment is worth counting. It holds before anything runs.
    await instance.api("POST", "/instance/prices", { executor: "e2b", vcpu_second_nano: 1_000_000, gib_second_nano: 333_333, metered: true });
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, { name: "Harbour", source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    const made = await instance.api("POST", `/teams/${instance.team}/workspaces`, { project_id: project.id, name: "Counted", executor: "e2b" });
    workspace = await until("the workspace is ready", async () => {
      const w = await instance.api("GET", `/workspaces/${made.id}`);
      return w.state === "ready" && w;
    });
    browser = await launch(["--disable-3d-apis"]);
    page = await newPage(browser, { reducedMotion: "reduce", acceptDownloads: true });
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
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
  };

  test("while a sandbox runs the head of its workspace tells what it cost and how fast", async () => {
    await instance.api("POST", `/workspaces/${workspace.id}/sessions`, { agent: "command", argv: ["cat"] });
    await until("it runs", async () => (await instance.api("GET", `/workspaces/${workspace.id}/sandbox`)).state === "running");
    await until("it has cost something", async () => (await instance.api("GET", `/workspaces/${workspace.id}/costs`)).cost_nano > 20_000_000);
    await go(`/w/${workspace.key}`);
    await page.getByRole("button", { name: /\$0\.\d\d at \$\d+\.\d\d an hour/ }).click();
    const split = page.getByRole("dialog", { name: "Costs of this workspace" });
    await split.getByText("Sandboxes").waitFor();
    await split.getByRole("table", { name: "By session" }).waitFor();
    await fine("usage-head");
    await page.keyboard.press("Escape");
  });

  test("chart, table, file and ledger agree to the nano-dollar", async () => {
    await instance.api("POST", `/workspaces/${workspace.id}/pause`, {});
    await until("it is paused", async () => (await instance.api("GET", `/workspaces/${workspace.id}/sandbox`)).state === "paused");
    const ledger = (await instance.api("GET", "/instance/metrics")).workspaces.find((w) => w.workspace_id === workspace.id).cost_nano;
    assert.ok(ledger > 0);
    await go("/usage?exact=1");
    const table = page.getByRole("table", { name: /Usage by day/ });
    const all = table.locator("tfoot tr");
    await all.getByText(exact(ledger), { exact: true }).first().waitFor();
    const chart = page.getByRole("slider", { name: /Costs by day/ });
    await chart.focus();
    await page.keyboard.press("End");
    assert.match(await chart.getAttribute("aria-valuetext"), new RegExp(`Sandboxes ${exact(ledger).replace(/[$.]/g, "\\$&")},`));
    await fine("usage-chart");
    for (const by of ["Person", "Project", "Workspace", "Place", "Agent"]) {
      await page.getByRole("group", { name: "By" }).getByRole("button", { name: by, exact: true }).click();
      const rows = page.getByRole("table", { name: `Usage by ${by.toLowerCase()}` });
      await rows.locator("tfoot").getByText(exact(ledger), { exact: true }).first().waitFor();
    }
    await page.getByRole("group", { name: "By" }).getByRole("button", { name: "Workspace", exact: true }).click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download CSV" }).click()]);
    const lines = readFileSync(await file.path(), "utf8").trim().split(/\r?\n/);
    const head = lines[0].split(",");
    const at = head.findIndex((h) => /^cost|sandbox.*usd|cost_usd/i.test(h));
    const cost = lines.find((l) => l.includes("Counted")).split(",")[at];
    assert.equal(Number(cost.split(".")[0]) * 1e9 + Number(cost.split(".")[1].padEnd(9, "0")), ledger, lines.join("\n"));
    // The hours of its day are the same sum.
    await go("/usage?exact=1");
    await chart.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.getByRole("table", { name: /Usage by hour/ }).locator("tfoot").getByText(exact(ledger), { exact: true }).first().waitFor();
  });

  test("quotas are set in a grid, one by one, for several, and from a spreadsheet", async () => {
    await join("Ana", "ana@example.com");
    await instance.api("PUT", `/instance/teams/${(await instance.api("GET", "/teams")).items[0].id}/plan`, { plan_id: "pro" });
    await go("/settings/quotas");
    await page.getByLabel(/^Hours of Ana/).fill("40");
    await page.keyboard.press("ArrowUp");
    await page.getByText("1 change, unsaved").waitFor();
    await page.getByLabel("Select everyone").check();
    const bulk = page.getByRole("form", { name: "Set for all selected" });
    await bulk.getByLabel("What to set").selectOption("concurrent");
    await bulk.getByLabel("The value").fill("3");
    await bulk.getByRole("button", { name: "Set", exact: true }).click();
    await page.getByText("3 changes, unsaved").waitFor();
    await page.getByLabel(/^Cores of Ana/).evaluate((el) => {
      const data = new DataTransfer();
      data.setData("text/plain", "1\t2\n");
      el.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await page.getByText("5 changes, unsaved").waitFor();
    await fine("usage-quotas");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Quotas saved").first().waitFor();
    const rows = (await instance.api("GET", `/teams/${instance.team}/quotas`)).items;
    const of = (name) => rows.find((r) => r.user.name === name).override;
    assert.deepEqual(of("Ana"), { hours_month: 40, concurrent: 3, cpus: 1, memory_mb: 2048 });
    assert.deepEqual(of("Mika"), { concurrent: 3 });
    // More than the plan is the operators' to give: the refusal says so, and nothing was changed.
    await page.getByLabel(/^Hours of Ana/).fill("500");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("alert").getByText(/Choose a larger plan, or ask an operator/).waitFor();
    assert.equal((await instance.api("GET", `/teams/${instance.team}/quotas`)).items.find((r) => r.user.name === "Ana").override.hours_month, 40);
    page.problems.length = 0; // the browser logs the refusal as a network error
    await page.getByRole("button", { name: "Discard" }).click();
  });

  test("a quota refusal is shown before and at a start, with two alternatives", async () => {
    const mika = (await instance.api("GET", "/me")).user.id;
    await instance.api("PUT", `/teams/${instance.team}/quotas`, { items: [{ user_id: mika, hours_month: 0 }] });
    await go(`/w?new=${workspace.project_id}`);
    const compose = composer(page);
    await (await compose.open("Where it runs")).getByRole("radio", { name: /^E2B/ }).check();
    const before = page.getByRole("status").filter({ hasText: "Your hours for this month are used up." });
    await before.getByText(/of your 0 hours are left/).waitFor();
    await before.getByRole("button", { name: "Upgrade plan" }).scrollIntoViewIfNeeded();
    await fine("usage-before");
    await before.getByRole("button", { name: "Try local mode" }).click();
    const far = page.getByRole("group", { name: "Place" }).getByRole("radio", { name: /E2B/ });
    assert.equal(await far.isChecked(), false);
    // Whoever starts there all the same is refused with the figures, and moves only when asked to.
    await far.check();
    await compose.close();
    await compose.prompt.fill("Refused");
    await compose.agent(/^Shell/);
    await compose.create.click();
    const panel = page.getByRole("alert").filter({ hasText: "Your hours for this month are used up" });
    await panel.getByText("Limit", { exact: true }).waitFor();
    await panel.getByRole("button", { name: "Upgrade plan" }).click();
    await panel.getByRole("link", { name: "Choose a larger plan" }).waitFor();
    page.problems.length = 0; // as above
    await fine("usage-refused");
    await panel.getByRole("button", { name: "Try local mode" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Try local mode" }).click();
    await page.getByText(/is now in /).first().waitFor();
    const moved = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.name === "Refused");
    assert.notEqual(moved.executor, "e2b");
  });

  test("budget, plans, prices and the switch, on a phone in the dark", async () => {
    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    page = phone;
    await go("/settings/budget");
    await page.getByLabel("Monthly budget in dollars").fill("12.50");
    await page.getByLabel("Warn at").fill("50 80, 100");
    await page.getByRole("radio", { name: /Continue/ }).check();
    await page.getByLabel("Cap beyond the budget, in dollars").fill("3");
    await page.getByRole("button", { name: "Save the budget" }).click();
    await page.getByText("Budget saved").first().waitFor();
    const b = await instance.api("GET", `/teams/${instance.team}/budget`);
    assert.deepEqual([b.limit_nano, b.thresholds, b.overage, b.overage_cap_nano], [12_500_000_000, [50, 80, 100], true, 3_000_000_000]);
    await fine("usage-budget");
    await go("/usage");
    await page.getByText("Budget left").waitFor();
    await fine("usage-phone");
    await go("/settings/plans");
    await page.getByRole("button", { name: "Change Free" }).click();
    const form = page.getByRole("form", { name: "Plan Free" });
    await form.getByLabel("Hours a month").fill("15");
    await form.getByRole("button", { name: "Save the plan" }).click();
    await page.getByText(/15 hours a month each/).waitFor();
    await fine("usage-plans");
    await go("/settings/prices");
    await page.getByText(/\$0\.001 a core and \$0\.000333333 a GiB each second/).waitFor();
    await fine("usage-prices");
    await go("/settings/server-usage");
    await page.getByRole("button", { name: "Stop paid sandboxes…" }).click();
    await page.getByLabel("Why").fill("Looking into a runaway agent");
    await page.getByRole("button", { name: "Stop paid sandboxes", exact: true }).click();
    await page.getByText(/Looking into a runaway agent/).waitFor();
    await fine("usage-switch");
    await page.getByRole("button", { name: "Allow them again" }).click();
    await page.getByRole("button", { name: "Stop paid sandboxes…" }).waitFor();
  });

  /** Somebody who joins the team by an invite. */
  async function join(name, email) {
    const invite = await instance.api("POST", `/teams/${instance.team}/invites`, { role: "member" });
    const body = { token: new URL(invite.url).hash.slice(1), name, email, password: "seven lamps over water" };
    const accepted = await fetch(`${instance.url}/api/v1/invites/accept`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    assert.ok(accepted.ok, `joining: ${accepted.status} ${await accepted.clone().text()}`);
  }
});
