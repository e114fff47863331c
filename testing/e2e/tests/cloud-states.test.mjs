// What the browser shows of a workspace in a cloud place, state by state, in both themes and on a phone.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { farAway, place, sandbox, steps } from "../lib/cloud-fixtures.mjs";
import { Instance, password } from "../lib/instance.mjs";

describe("cloud states", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let workspace;
  let session;
  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start({ sandboxing: { monthlyBudgetUsd: 500 } });
    await instance.setUp();
    workspace = await instance.workspace("Remote");
    session = await instance.api("POST", `/workspaces/${workspace.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo the kept screen; exec cat"] });
    browser = await launch(["--disable-3d-apis"]);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  const LOOKS = { wide: ["dark", 1440, 900], phone: ["light", 390, 844] };
  const open = async (look, state, path = "") => {
    const [colorScheme, width, height] = LOOKS[look];
    const page = await newPage(browser, { colorScheme, viewport: { width, height }, reducedMotion: "reduce" });
    await signIn(page, instance, password);
    const full = { place: place(), sandbox: sandbox(), ...state };
    await farAway(page, workspace.id, full);
    await page.goto(`${instance.url}/${instance.team}${path || `/w/${workspace.key}`}`);
    return page;
  };
  const done = async (page, name) => {
    await shot(page, name);
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.context().close();
  };

  test("a region that is down offers the next with a button, to a new workspace and to one that is there", async () => {
    const at = (executor, name, available, latency_ms) => ({ executor, name, available, reason: available ? "" : "E2B does not answer", hint: "", latency_ms, probe_url: "", price_nano_per_hour: 132_400_000 });
    const regions = [at("e2b@main", "E2B · United States", false, 20), at("e2b@eu", "E2B · Europe", true, 90)];
    let page = await open("wide", { place: place({ available: false, reason: "E2B does not answer", regions }) }, `/w?new=${workspace.project_id}`);
    await (await composer(page).open("Where it runs")).getByRole("radio", { name: /E2B/ }).check();
    await page.getByText("The next region is E2B · Europe (90 ms from the server, $0.13 an hour).").waitFor();
    await page.getByRole("button", { name: "Use E2B · Europe" }).click();
    assert.ok(await page.getByRole("group", { name: "Region" }).getByRole("radio", { name: /Europe/ }).isChecked());
    await done(page, "cloud-region-down");

    let moved;
    page = await open("wide", {
      place: place({ regions }),
      sandbox: sandbox({ state: "failed", state_reason: "E2B does not answer.", steps: steps("failed") }),
      answers: {
        [`/workspaces/${workspace.id}`]: async (r, json) => {
          if (r.request().method() !== "PATCH") return r.fallback();
          moved = r.request().postDataJSON();
          return json(r, { ...workspace, executor: "e2b@eu", place_changes: [] });
        },
        [`/workspaces/${workspace.id}/wake`]: (r, json) => json(r, sandbox()),
      },
    }, `/w/${workspace.key}?tab=shell`);
    await page.getByRole("button", { name: "Continue in E2B · Europe" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Move" }).click();
    await page.getByText(`${workspace.key} is now in`).first().waitFor();
    assert.deepEqual(moved, { executor: "e2b@eu" });
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.context().close();
  });

  for (const look of ["wide", "phone"]) {
    test(`a place is chosen with its size, price, budget and what happens when it cannot serve, ${look}`, async () => {
      const page = await open(look, {}, `/w?new=${workspace.project_id}`);
      const compose = composer(page);
      await compose.agent(/^None/);
      const choice = await compose.open("Where it runs");
      await choice.getByRole("radio", { name: /E2B/ }).check();
      await choice.getByText("$0.13 an hour while it runs, $412.10 of this month's budget left").waitFor();
      const size = page.getByRole("group", { name: "Size" });
      assert.ok(await size.getByRole("radio", { name: /2 cores, 2 GB/ }).isChecked());
      assert.ok(await size.getByRole("radio", { name: /8 cores/ }).isDisabled());
      await size.getByRole("radio", { name: /4 cores, 4 GB/ }).check();
      await choice.getByText("$0.26 an hour while it runs").waitFor();
      await page.getByText("Command for the missing size").click();
      await page.getByText("parawork e2b template build --size 8x8192", { exact: true }).waitFor();
      await page.getByText("Command for the missing size").scrollIntoViewIfNeeded();
      const consent = page.getByRole("checkbox", { name: /start on this server instead/ });
      assert.equal(await consent.isChecked(), false);
      await consent.check();
      await page.getByText(/Its code stays on this server instead of moving to E2B/).waitFor();
      let sent;
      await page.route(/\/api\/v1\/teams\/[^/]+\/workspaces$/, (r) => {
        if (r.request().method() !== "POST") return r.fallback();
        sent = r.request().postDataJSON();
        return r.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ code: "place_cannot_serve", message: "E2B asks for fewer requests. Try again in a moment.", details: {}, request_id: "r" }) });
      });
      await compose.close();
      await compose.prompt.fill("In the cloud");
      await compose.create.click();
      await page.getByText("E2B asks for fewer requests").waitFor();
      assert.deepEqual([sent.executor, sent.resources, sent.fallback_ok], ["e2b", { cpus: 4, memory_mb: 4096 }, true]);
      await done(page, `cloud-choice-${look}`);
    });

    test(`a place that starts shows its steps, and can be cancelled, ${look}`, async () => {
      let cancelled = 0;
      const state = { sandbox: sandbox({ state: "starting", started_at: Date.now() - 9000, steps: steps("done", "done", "running") }) };
      state.answers = { [`/workspaces/${workspace.id}/destroy-sandbox`]: (r, json) => (cancelled++, json(r, state.sandbox)) };
      const page = await open(look, state, `/w/${workspace.key}?tab=shell`);
      await page.getByRole("heading", { name: "Starting E2B" }).waitFor();
      await page.getByText("12 MB of 80 MB").waitFor();
      assert.equal(await page.getByRole("progressbar", { name: "Send the repository" }).getAttribute("aria-valuenow"), "16");
      await page.getByText("You can leave this page. It continues in the background.").waitFor();
      await page.getByRole("button", { name: "Cancel", exact: true }).click();
      await page.getByRole("button", { name: "Cancel", exact: true }).waitFor();
      assert.equal(cancelled, 1);
      await done(page, `cloud-starting-${look}`);
    });

    test(`a place that cannot serve says why and what can be done, ${look}`, async () => {
      const problem = { code: "place_cannot_serve", message: "E2B's plan allows no more sandboxes at once. Pause a workspace that nobody uses.", details: { reason: "quota", ways: ["retry", "upgrade", "free_place"] }, request_id: "req_9" };
      let moved = 0;
      const state = { sandbox: sandbox({ state: "failed", state_reason: "It could not be made: E2B's plan allows no more.", steps: steps("failed") }) };
      state.answers = {
        [`/workspaces/${workspace.id}/wake`]: (r, json) => json(r, problem, 503),
        [`/workspaces/${workspace.id}/fallback`]: (r, json) => (moved++, json(r, { ...workspace, executor: "local", place_changes: ["Agents share this server's kernel."] })),
      };
      const page = await open(look, state, `/w/${workspace.key}?tab=shell`);
      const panel = page.getByRole("alert").filter({ hasText: "Your synced files are safe" });
      await panel.getByRole("heading", { name: "E2B is not available" }).waitFor();
      await panel.getByRole("button", { name: "Retry" }).click();
      await panel.getByText("Pause a workspace that nobody uses.").waitFor();
      await panel.getByRole("button", { name: "Upgrade plan" }).click();
      await panel.getByText(/Raise it in E2B's dashboard/).waitFor();
      await shot(page, `cloud-cannot-${look}`);
      assert.deepEqual(await axe(page), []);
      await panel.getByRole("button", { name: "Try local mode" }).click();
      const ask = page.getByRole("alertdialog");
      await ask.getByText("The boundary becomes weaker: process sandbox instead of microvm.").waitFor();
      await ask.getByRole("button", { name: "Try local mode" }).click();
      await page.getByText("Agents share this server's kernel.").first().waitFor();
      assert.equal(moved, 1);
      await done(page, `cloud-moved-${look}`);
    });

    test(`a sandbox shows its usage, sync state, cost and end, ${look}`, async () => {
      const soon = Date.now() + 200_000;
      const page = await open(look, { sandbox: sandbox({ idle_at: soon }) }, `/w/${workspace.key}?dialog=place`);
      const dialog = page.getByRole("dialog", { name: /Place of/ });
      await dialog.getByText(/Synced \d+ s ago/).waitFor();
      await dialog.getByText("$0.84").waitFor();
      await dialog.getByText("at $0.13 an hour").waitFor();
      await dialog.getByRole("definition").filter({ hasText: "2 cores, 2 GB" }).waitFor();
      assert.ok(await dialog.getByRole("radio", { name: /2 cores, 2 GB/ }).isChecked());
      for (const name of ["Sync now", "Pause", "End"]) await dialog.getByRole("button", { name, exact: true }).waitFor();
      await dialog.getByText("Previews of ports are off. An operator turns them on with preview.baseDomain in config.json.").waitFor();
      await shot(page, `cloud-panel-${look}`);
      assert.deepEqual(await axe(page), []);
      await dialog.getByRole("button", { name: "Close" }).click();
      if (look === "wide") {
        await page.getByText(/sleeps in \d+ min/).waitFor();
        await page.getByText(/\$0.84 at \$0.13 an hour/).waitFor();
        await page.getByText(/42 % CPU/).waitFor();
      }
      await done(page, `cloud-head-${look}`);
    });

    test(`a sandbox that sleeps keeps its screen and wakes when somebody types, ${look}`, async () => {
      let woken = 0;
      const state = { sandbox: sandbox({ state: "paused", paused_for: "idle", paused_at: Date.now() - 3_600_000, state_reason: "Nobody used it for 30 minutes." }) };
      state.answers = { [`/workspaces/${workspace.id}/wake`]: (r, json) => ((woken++, Object.assign(state.sandbox, sandbox())), json(r, state.sandbox)) };
      const page = await open(look, state, `/w/${workspace.key}?session=${session.id}&live=1`);
      await page.getByText("the kept screen").waitFor();
      await page.getByText(/Asleep since .*\. It wakes when you type or press Wake\./).waitFor();
      await shot(page, `cloud-asleep-${look}`);
      assert.deepEqual(await axe(page), []);
      if (look === "wide") {
        await page.locator(".xterm-helper-textarea").focus();
        await page.keyboard.press("x");
      } else await page.getByRole("button", { name: "Wake", exact: true }).click();
      await page.getByText(/Asleep since/).waitFor({ state: "detached" });
      assert.equal(woken, 1);
      assert.doesNotMatch(await instance.output(session.id), /x/); // what woke it is not typed into a program that did not run
      await done(page, `cloud-awake-${look}`);
    });

    test(`unsynced files are listed, and conflicts are resolved, ${look}`, async () => {
      const settled = [];
      const state = { sandbox: sandbox({ sync: { state: "behind", synced_at: Date.now() - 65_000, pending: 3, reason: "the disk of the server is full", not_synced: 1, conflicts: 1 } }) };
      state.sync = {
        ...state.sandbox.sync,
        not_synced: [{ path: "data/dump.bin", state: "too_large", reason: "larger than 100 MB", size: 240e6 }],
        conflicts: [{ id: "con_1", path: "README.md", kept_path: "README.md.server-2026-11-22", found_at: Date.now() - 300_000 }],
      };
      state.answers = {
        "/sync-conflicts/con_1": (r) => {
          settled.push(r.request().method());
          state.sync.conflicts = [];
          state.sandbox.sync.conflicts = 0;
          return r.fulfill({ status: 204 });
        },
      };
      const page = await open(look, state, `/w/${workspace.key}?tab=changes`);
      await page.getByText("Sync is behind, 3 files left, last 1 min ago", { exact: true }).waitFor();
      await page.getByText("The disk of the server is full.").waitFor();
      await page.getByText("1 file changed on both sides, 1 file not synced").click();
      await page.getByText("Larger than 100 MB.").waitFor();
      await shot(page, `cloud-conflicts-${look}`);
      assert.deepEqual(await axe(page), []);
      await page.getByRole("button", { name: "Open the server's README.md.server-2026-11-22" }).click();
      await page.waitForURL(/file=README.md.server/);
      await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?tab=changes`);
      await page.getByText("1 file changed on both sides, 1 file not synced").click();
      await page.getByRole("button", { name: "Mark as resolved: README.md" }).click();
      await page.getByRole("heading", { name: "Changed on both sides" }).waitFor({ state: "detached" });
      assert.deepEqual(settled, ["DELETE"]);
      await done(page, `cloud-settled-${look}`);
    });

    test(`operators set the places of the server, and see what config.json says, ${look}`, async () => {
      const page = await open(look, {}, "/settings/places");
      await page.getByRole("heading", { name: "The whole server" }).waitFor();
      const budget = page.getByLabel("Budget a month, dollars");
      assert.ok(await budget.isDisabled());
      assert.equal(await budget.inputValue(), "500");
      await page.getByText("set in config.json").first().waitFor();
      assert.equal(await page.getByLabel("API key").count(), 0, "forms open on demand");
      await page.getByRole("button", { name: "Settings E2B" }).click();
      const e2b = page.getByRole("form", { name: /E2B/ });
      assert.ok(await e2b.getByRole("radio", { name: "8 cores, 8 GB by default" }).isDisabled());
      await e2b.getByLabel("Suspend when idle").fill("soon");
      await e2b.getByText("Enter a whole number.").waitFor();
      await e2b.getByLabel("Suspend when idle").fill(look === "wide" ? "45" : "20");
      await e2b.getByRole("button", { name: "Save E2B" }).click();
      await page.getByText("Saved", { exact: true }).first().waitFor();
      const kept = await instance.api("GET", "/instance/places/e2b");
      assert.equal(kept.settings.find((s) => s.name === "idle_minutes").value, look === "wide" ? 45 : 20);
      const pool = page.getByRole("form", { name: "Sandboxes made ahead of time" });
      await pool.getByLabel("Keep some sandboxes ready").check();
      await pool.getByLabel("Ready at least").fill("3");
      await pool.getByText("3 ready at the default size: $0.40 an hour").waitFor();
      await done(page, `cloud-places-${look}`);
    });

    test(`operators see how places do and what they cost, ${look}`, async () => {
      // The real figures first: nothing was measured, and nothing is invented.
      let page = await open(look, {}, "/settings/metrics");
      await page.getByText("Not measured yet").first().waitFor();
      await page.getByText("No costs yet.").first().waitFor();
      await page.getByRole("region", { name: "By place" }).getByRole("columnheader", { name: "This server" }).waitFor();
      await page.getByText("$0.00 of $500.00 this month, $500.00 left").waitFor();
      await done(page, `cloud-metrics-none-${look}`);

      const real = await instance.api("GET", "/instance/metrics");
      const figures = {
        ...real,
        targets: real.targets.map((t) => ({ ...t, value: { creation: 2400, success: 98.2, command: 40, sync: 800 }[t.name], met: t.name !== "success" })),
        places: [{ ...real.places[0], executor: "e2b", name: "E2B", workspaces: 12, share: 0.4, active: 3, created: 56, failed: 1, success: 0.982, create_p50_ms: 1900, create_p95_ms: 2400, idle_share: 0.31, sync_lag_p95_ms: 800, cost_nano_month: 460e9 }, ...real.places],
        workspaces: [1, 2, 3].map((n) => ({ workspace_id: `ws_${n}`, key: n === 3 ? "" : `PW-${n}`, name: n === 3 ? "" : `Work ${n}`, team: "harbour", cost_nano: 300e9 / n })),
        users: [{ user_id: "u", name: "Mika", cost_nano: 450e9 }, { user_id: "", name: "", cost_nano: 10e9 }],
        pool: { enabled: true, min: 3, max: 10, ready: 3, making: 0, taken: 2, hits: 14, misses: 1, cost_nano_month: 10e9 },
        budget: { limit_nano: 500e9, spent_nano: 460e9, left_nano: 40e9 },
      };
      page = await open(look, { answers: { "/instance/metrics": (r, json) => json(r, figures) } }, "/settings/metrics");
      await page.getByText("Not met", { exact: true }).waitFor();
      await page.getByText("98.2 %", { exact: true }).first().waitFor();
      await page.getByText("Nearly spent").waitFor();
      await page.getByText("$460.00 of $500.00 this month, $40.00 left").waitFor();
      await page.getByText(/3 ready, 0 being created, 2 in use; taken 14 times, none was ready 1 time; \$10.00 this month/).waitFor();
      await page.getByRole("region", { name: "Cost by workspace" }).getByText("A deleted workspace").waitFor();
      await done(page, `cloud-metrics-${look}`);
    });
  }
});
