// A budget is spent while an agent runs in a remote sandbox: people are warned, a grace period counts down, then all files are synced and
// the sandbox is paused; once the budget is raised, it continues. The real server and web app, and a stand-in for E2B that runs real sandboxes.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Cloud, haveCloud } from "../lib/cloud.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const skip = !haveChromium ? "Chromium is not installed" : !haveCloud && "bubblewrap does not work here";

describe("a budget that is spent", { skip }, () => {
  let cloud;
  let instance;
  let browser;
  let page;
  let workspace;
  let hook;
  const heard = [];
  before(async () => {
    if (skip) return;
    hook = createServer((req, res) => {
      let body = "";
      req.on("data", (d) => (body += d));
      req.on("end", () => {
        heard.push(JSON.parse(body));
        res.writeHead(204).end();
      });
    }).listen(0, "127.0.0.1");
    await once(hook, "listening");
    cloud = await Cloud.start();
    instance = await Instance.start({
      sandboxing: { defaultProvider: "e2b", e2b: cloud.config },
      outgoing: { allow: ["127.0.0.0/8"] },
      agents: { ticker: { command: "/bin/sh", defaultArgs: ["-c", "i=0; while :; do i=$((i+1)); echo $i > ticks; echo tick $i; sleep 0.3; done"] } },
    });
    await instance.setUp();
    await instance.api("POST", `/teams/${instance.team}/webhooks`, { url: `http://127.0.0.1:${hook.address().port}/hook`, kinds: ["budget"] });
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, { name: "Harbour", source: { kind: "sample" } });
    await until("the project is ready", async () => (await instance.api("GET", `/projects/${project.id}`)).state === "ready");
    const made = await instance.api("POST", `/teams/${instance.team}/workspaces`, { project_id: project.id, name: "Remote and costly", executor: "e2b" });
    workspace = await until("the workspace is ready", async () => {
      const w = await instance.api("GET", `/workspaces/${made.id}`);
      return w.state === "ready" && w;
    });
    await instance.api("POST", `/workspaces/${workspace.id}/sessions`, { agent: "ticker" });
    browser = await launch(["--disable-3d-apis"]);
    page = await newPage(browser, { colorScheme: "dark", reducedMotion: "reduce" });
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}`);
    await page.getByText(/tick \d/).first().waitFor();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    await cloud?.stop();
    hook?.close();
  });

  const spend = (body) => instance.api("PUT", `/teams/${instance.team}/budget`, body);
  const now = () => instance.api("GET", `/workspaces/${workspace.id}`);
  const fine = async (name) => {
    await shot(page, name);
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
  };

  test("people are warned once of a threshold, in the timeline and by a webhook", async () => {
    const spent = await until("it costs something", async () => {
      const b = await spend({ limit_nano: 1_000_000_000_000 });
      return b.status.spent_nano > 400_000 && b.status.spent_nano;
    });
    await spend({ limit_nano: Math.ceil(spent * 1.22), grace_seconds: 600 }); // 82 % of it
    const alert = await until("the threshold is noted", async () => (await instance.api("GET", `/teams/${instance.team}/budget`)).alerts.find((a) => a.percent === 80));
    assert.equal(alert.scope, "team_budget");
    await until("the webhook is called", () => heard.some((m) => m.type === "attention.budget" && /of the team's budget of \$0\.\d+ (are|is) spent/.test(m.text)));
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?tab=activity`);
    await page.getByText(/of the team's budget of \$0\.\d+ (are|is) spent/).first().waitFor();
  });

  test("at 100 % the work has a grace, which its terminal and its page count down", async () => {
    await spend({ limit_nano: 1 });
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}`);
    const bar = page.getByRole("region", { name: "Limit", exact: true });
    await bar.getByText(/The team's budget of (under )?\$0\.\d+ is spent/).waitFor();
    await bar.getByRole("timer", { name: "Time left" }).getByText(/^\d+:\d\d$/).waitFor();
    await bar.getByRole("link", { name: "Raise the budget" }).waitFor();
    const notice = page.getByRole("region", { name: "Used this month" });
    await notice.getByText(/of the team's budget of .* Paid sandboxes are paused in a few minutes/).waitFor();
    const line = page.locator("[data-grace-line=counting]");
    await line.getByText(/^\d+:\d\d$/).waitFor();
    const left = await line.getByRole("timer").textContent();
    await until("it counts down", async () => (await line.getByRole("timer").textContent()) !== left);
    // What runs goes on, and nothing is written into its terminal.
    const w = await now();
    assert.deepEqual([w.state, w.grace.state, w.grace.scope], ["ready", "counting", "team_budget"]);
    assert.doesNotMatch(await page.locator(".xterm-rows").first().textContent(), /budget/);
    await fine("limit-grace");
    await page.setViewportSize({ width: 390, height: 844 });
    await bar.getByRole("timer").waitFor();
    await fine("limit-grace-phone");
    await page.setViewportSize({ width: 1280, height: 800 });
    await notice.getByRole("button", { name: "Dismiss" }).click();
    await notice.waitFor({ state: "detached" });
  });

  test("raising it lifts the grace", async () => {
    await spend({ limit_nano: 1_000_000_000_000 });
    await page.getByRole("region", { name: "Limit", exact: true }).waitFor({ state: "detached" });
    await page.locator("[data-grace-line]").waitFor({ state: "detached" });
    assert.equal((await now()).grace, null);
  });

  test("when the grace period ends, all files are synced and the sandbox is paused", async () => {
    await spend({ limit_nano: 1, grace_seconds: 1 });
    const bar = page.getByRole("region", { name: "Limit", exact: true });
    await bar.getByText("The sandbox is paused with everything in it.").waitFor({ timeout: 60_000 });
    await bar.getByText("It continues automatically when the limit is raised or the month ends.").waitFor();
    const sandbox = await instance.api("GET", `/workspaces/${workspace.id}/sandbox`);
    assert.deepEqual([sandbox.state, sandbox.paused_for], ["paused", "limit"]);
    assert.equal((await instance.api("GET", `/workspaces/${workspace.id}/changes`)).items.find((c) => c.path === "ticks")?.status, "untracked");
    await page.locator("[data-grace-line=stopped]").waitFor();
    await fine("limit-stopped");
    // It waits for somebody: in the inbox.
    await page.goto(`${instance.url}/${instance.team}/inbox`);
    await page.getByRole("heading", { name: /At its limit/ }).waitFor();
    await page.getByText(/The team's budget of (under )?\$0\.\d+ is spent/).first().waitFor();
    await fine("limit-inbox");
    await assert.rejects(instance.api("POST", `/workspaces/${workspace.id}/wake`), /budget_exceeded/);
  });

  test("raised, it goes on by itself where it was", async () => {
    await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}`);
    await page.locator("[data-grace-line=stopped]").waitFor();
    const ticks = async () => Number((await instance.api("GET", `/workspaces/${workspace.id}/sessions`)).items[0].bytes);
    const was = await ticks();
    await spend({ limit_nano: 1_000_000_000_000 });
    await page.getByRole("region", { name: "Limit", exact: true }).waitFor({ state: "detached", timeout: 60_000 });
    await until("the agent goes on", async () => (await ticks()) > was + 50);
    const w = await now();
    assert.deepEqual([w.state, w.grace], ["ready", null]);
    assert.ok(heard.filter((m) => m.workspace).length >= 2, JSON.stringify(heard)); // one for each grace
  });
});
