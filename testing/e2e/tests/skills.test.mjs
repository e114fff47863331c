// What an agent saves as a skill, from a job to its review and its next run, and the pages Jobs and Skills.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("skills and jobs", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("a draft of a job is reviewed, used, restored and run", async () => {
    const ws = await instance.workspace("Harbour");
    const skills = `/teams/${instance.team}/skills`;
    const made = await instance.api("POST", skills, {
      name: "release",
      description: "How to release",
      text: "1. make check\n2. git tag",
      project_id: ws.project_id,
    });
    const job = await instance.api("POST", `/teams/${instance.team}/jobs`, {
      agent: "command",
      executor: "local",
      project_id: ws.project_id,
      argv: [
        "sh",
        "-c",
        'parawork skill save release "How to release" "1. make check\n2. git tag -s" && echo "$1" > said.txt',
        "sh",
      ],
      prompt: "Save it again",
      artifacts: ["said.txt"],
    });
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.getByRole("link", { name: "Workspaces" }).first().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    const row = page.getByRole("list", { name: "Jobs" }).getByRole("listitem").filter({ hasText: "Save it again" });
    await row.getByText("Completed").waitFor();
    await row.getByRole("button", { name: "Details of Save it again" }).click();
    await row.getByRole("list", { name: "Artifacts" }).getByRole("link", { name: "said.txt" }).waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the jobs");
    await shot(page, "jobs");
    await row.getByRole("button", { name: "Delete Save it again" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No job yet").waitFor();
    assert.equal((await instance.raw("GET", `/jobs/${job.id}`)).status, 404);

    await page.keyboard.press("g");
    await page.keyboard.press("g");
    const skill = page.getByRole("list", { name: "Skills" }).getByRole("listitem").filter({ hasText: "release" }).first();
    await skill.getByText("draft 2 waits to be accepted").waitFor();
    await page.getByLabel("Search").fill("nowhere");
    await page.getByText("No such skill.").waitFor();
    await page.getByLabel("Search").fill("tag");
    await page.getByLabel("Only drafts").check();
    await skill.getByRole("button", { name: "Review release" }).click();
    const lines = skill.getByRole("region", { name: "Lines changed" });
    await lines.getByText("2. git tag -s").waitFor();
    await lines.getByText("2. git tag", { exact: true }).waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the skills");
    await shot(page, "skill-review");
    await skill.getByRole("button", { name: "Accept" }).click();
    await page.getByText("No such skill.").waitFor();
    await page.getByLabel("Only drafts").uncheck();
    await skill.getByText("version 2").first().waitFor();
    assert.equal((await instance.api("GET", `/skills/${made.id}`)).text, "1. make check\n2. git tag -s");
    await skill.getByRole("button", { name: "Versions release" }).click();
    await skill.getByRole("button", { name: "Restore version 1" }).click();
    await until("the first version is in use", async () => (await instance.api("GET", `/skills/${made.id}`)).in_use === 1);

    await skill.getByRole("button", { name: "Run release" }).click();
    const dialog = page.getByRole("dialog", { name: "Run release" });
    await dialog.getByLabel("Workspace", { exact: true }).waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the dialog");
    await page.keyboard.press("Escape");

    await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["true"] });
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation`);
    await page.getByRole("button", { name: "More for this conversation" }).click();
    await page.getByRole("menuitem", { name: /^Save as a skill/ }).click();
    const form = page.getByRole("dialog", { name: "Save as a skill" });
    const yourself = form.getByRole("button", { name: "Write it yourself" }); // where its end was not seen yet
    await form.getByLabel("Name").or(yourself).waitFor();
    if (await yourself.isVisible()) await yourself.click();
    await form.getByLabel("Name").fill("moor-a-boat");
    await form.getByLabel("When to use it").fill("A boat arrives");
    await form.getByRole("textbox", { name: "Text" }).fill("Throw the line.");
    await form.getByLabel("For all projects of the team").check();
    assert.deepEqual(await axe(page, []), [], "accessibility of the form");
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await form.waitFor({ state: "detached" });
    const [moor] = (await instance.api("GET", `${skills}?q=moor`)).items;
    assert.deepEqual([moor.name, moor.project_id, moor.in_use], ["moor-a-boat", null, 1]);

    await page.goto(`${instance.url}/${instance.team}/settings/skills`);
    await page.getByRole("textbox", { name: "Instructions" }).fill("Write in English.");
    await page.getByLabel("Use skills that agents save without a review").check();
    await page.getByRole("button", { name: "Save instructions" }).click();
    await until("both are kept", async () => {
      const kept = await instance.api("GET", `/teams/${instance.team}/agent-instructions`);
      return kept.text === "Write in English." && kept.accept_skills === true;
    });
    await instance.api("PUT", `/teams/${instance.team}/agent-instructions`, { text: "Write in French." });
    await until("the open page has what somebody else wrote", async () =>
      (await page.getByRole("textbox", { name: "Instructions" }).inputValue()) === "Write in French.");
    assert.deepEqual(await axe(page, []), [], "accessibility of the settings");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("an automation is made, runs by hand and by a report, and is paused", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    const work = { agent: "command", executor: "local", argv: ["sh", "-c", "echo done: \"$1\"", "sh"], prompt: "look at {{event.title}}" };
    const made = await instance.api("POST", `/teams/${instance.team}/automations`, { name: "Look", trigger: { kind: "webhook" }, work });
    await page.goto(`${instance.url}/${instance.team}/automations`);
    const row = page.getByRole("list", { name: "Automations" }).getByRole("listitem").first();
    await row.getByText("Look", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Run now: Look" }).click();
    const run = async (n) => (await instance.api("GET", `/automations/${made.id}/runs`)).items[n]?.state;
    await until("the run has ended", async () => (await run(0)) === "completed");
    const body = JSON.stringify({ title: "the mast" });
    const sent = await fetch(made.events_url.startsWith("http") ? made.events_url : instance.url + made.events_url, {
      method: "POST",
      body,
      headers: { "Parawork-Signature": createHmac("sha256", made.secret).update(body).digest("hex") },
    });
    assert.equal(sent.status, 202);
    await row.getByRole("button", { name: "Runs of Look" }).click();
    await row.getByText("for an event: the mast").waitFor();
    await until("the next run has ended", async () => (await run(1)) === "completed" && (await run(0)) === "completed");
    const { items } = await instance.api("GET", `/automations/${made.id}/runs`);
    assert.equal((await instance.api("GET", `/jobs/${items[0].job_ids[0]}`)).prompt, "look at the mast");
    await row.getByRole("button", { name: "Pause Look" }).click();
    await row.getByText("Paused").waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the automations");
    await page.getByRole("button", { name: "New automation" }).click();
    const dialog = page.getByRole("dialog", { name: "New automation" });
    await dialog.getByLabel("Prompt").fill("Tidy up");
    await dialog.getByRole("button", { name: "Dry run" }).click();
    await dialog.getByText("It would run at").waitFor();
    await dialog.getByRole("button", { name: "Git host" }).click();
    await dialog.getByLabel("Prompt").fill("Fix {{event.title}}");
    await dialog.getByText("Try it with a sample of an event").click();
    await dialog.getByLabel("JSON").fill('{"action": "opened", "issue": {"title": "Crash", "author_association": "NONE"}}');
    await dialog.getByRole("button", { name: "Dry run" }).click();
    await dialog.getByText("Fix Crash").waitFor();
    await dialog.getByText("The automation does not wait for this event.").waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the dialog");
    await shot(page, "automation");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
