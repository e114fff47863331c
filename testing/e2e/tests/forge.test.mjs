// Pull requests from the browser: real git, forges that are small and strict, over HTTPS.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { forges, Instance, password, until } from "../lib/instance.mjs";

const token = "a-long-token-of-mika-0123456789";
const scopes = { github: ["repo", "checks"], gitlab: ["api"], forgejo: ["write:repository"] };

describe("pull requests", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let hub;
  const at = {};
  before(async () => {
    if (!haveChromium) return;
    hub = await forges();
    for (const kind of Object.keys(scopes)) at[kind] = await hub.tell("new", { kind, token, scopes: scopes[kind] });
    process.env.SSL_CERT_FILE = at.github.ca; // one certificate for all of them
    process.env.GIT_SSL_CAINFO = at.github.ca;
    instance = await Instance.start({ outgoing: { allow: ["127.0.0.0/8"] } });
    await instance.setUp();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    hub?.stop();
  });

  /** A project cloned from a forge, and a workspace in it with one commit. */
  const begin = async (kind, name) => {
    const url = `${at[kind].url}/acme/app.git`.replace("https://", `https://mika:${token}@`);
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, {
      name: kind,
      source: { kind: "url", url },
    });
    await until("clone", async () => {
      const p = await instance.api("GET", `/projects/${project.id}`);
      if (p.state === "failed") throw new Error(`clone failed: ${p.state_reason}`);
      return p.state === "ready";
    });
    const ws = await instance.newWorkspace(project.id, name);
    writeFileSync(join(ws.path, "login.txt"), "fixed\n");
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "Fix the login" });
    return { project, ws };
  };

  /** The workspace once it is known to be merged as that commit: the page says so when the forge does, and the base is fetched after it. */
  const home = (ws, commit) =>
    until("the merge is fetched", async () => {
      const now = await instance.api("GET", `/workspaces/${ws.id}`);
      return now.merged_commit === commit && now;
    });

  test("a project says its forge, a draft is opened, followed, made ready, merged there and fetched", async () => {
    const { project, ws } = await begin("github", "Fix the login");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const card = page.getByRole("region", { name: "Pull request", exact: true });
    await card.getByText(/Which Git host 127\.0\.0\.1.* cannot be derived from its name/).waitFor();

    await page.goto(`${instance.url}/${instance.team}/p/${project.id}`);
    const form = page.getByRole("form", { name: "Git host" });
    await form.getByRole("radio", { name: "GitHub" }).check();
    await form.getByRole("button", { name: "Save the Git host" }).click();
    await form.getByText(/Pull requests are opened on GitHub/).waitFor();
    assert.deepEqual(await axe(page), []);

    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const fresh = card.getByRole("form", { name: "New pull request" });
    await fresh.waitFor();
    assert.equal(await fresh.getByLabel("Title").inputValue(), "Fix the login");
    assert.equal(await fresh.getByLabel("Into").inputValue(), "main");
    await fresh.getByLabel("Description").fill("It was broken.");
    await fresh.getByLabel("Create as draft").check();
    assert.deepEqual(await axe(page), []);
    await shot(page, "pull-request-new");
    await fresh.getByRole("button", { name: "Push and open the pull request" }).click();
    await card.getByRole("link", { name: "#1 Fix the login" }).waitFor();
    await card.getByText("Draft", { exact: true }).waitFor();
    const top = async (c) => (await c.boundingBox()).y;
    assert.ok((await top(card)) < (await top(page.getByRole("region", { name: "Merge into main" }))), "what is open comes first");
    const [there] = await hub.tell("pulls", { kind: "github" });
    assert.equal(there.Body, "It was broken.");
    assert.equal(there.Sha, (await hub.tell("ref", { kind: "github", branch: ws.branch })).commit);

    await hub.tell("check", {
      kind: "github",
      check: { Commit: there.Sha, Name: "unit", State: "failure", URL: "https://ci.example/1" },
    });
    await hub.tell("edit", { kind: "github", number: 1, reviews: [{ User: "grace", State: "APPROVED" }] });
    await card.getByRole("button", { name: "Ready for review" }).click();
    await card.getByText("Open", { exact: true }).waitFor();
    await card
      .getByRole("list", { name: /^Checks on/ })
      .getByRole("link", { name: "unit" })
      .waitFor();
    await card.getByText("grace approved").waitFor();
    await page.getByRole("navigation", { name: "Sidebar" }).getByText("Pull request #1, checks failed").waitFor();
    assert.deepEqual(await axe(page), []);
    await shot(page, "pull-request-open");

    // Somebody pushes there: what was not seen is not merged.
    await hub.tell("put", { kind: "github", branch: ws.branch, file: "other.txt", text: "theirs\n" });
    await card.getByRole("radio", { name: "Squash" }).check();
    await card.getByRole("button", { name: "Merge on the Git host" }).click();
    await card
      .getByRole("alert")
      .getByText(/has other commits than you saw/)
      .waitFor();
    await card.getByText(/The local branch is at/).waitFor(); // asked anew by itself
    await card.getByRole("button", { name: "Merge on the Git host" }).click();
    await card.getByText("Merged", { exact: true }).waitFor();
    const main = (await hub.tell("ref", { kind: "github", branch: "main" })).commit;
    const now = await home(ws, main);
    assert.equal(now.pull_request.state, "merged");
    const branches = (await instance.api("GET", `/projects/${project.id}/branches`)).items;
    assert.equal(branches.find((b) => b.name === "main").commit, main);
    assert.ok(!instance.log.join("").includes(token), "the token is in the log");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("a merge request merged by others is fetched; a pull request is opened on a telephone", async () => {
    const { project, ws } = await begin("gitlab", "Fix it there");
    await instance.api("PATCH", `/projects/${project.id}`, { forge: { kind: "gitlab", api_url: at.gitlab.api } });
    const mr = await instance.api("POST", `/workspaces/${ws.id}/pull-request`, { title: "By the API" });
    assert.deepEqual([mr.number, mr.state, mr.head_commit === mr.local_commit], [1, "open", true]);
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const card = page.getByRole("region", { name: "Merge request", exact: true });
    await card.getByRole("link", { name: "!1 By the API" }).waitFor();
    await hub.tell("merge", { kind: "gitlab", number: 1, strategy: "squash" });
    await card.getByRole("button", { name: "Refresh" }).click();
    await card.getByText("Merged", { exact: true }).waitFor();
    await home(ws, (await hub.tell("ref", { kind: "gitlab", branch: "main" })).commit);

    const other = await begin("forgejo", "Small screen");
    await instance.api("PATCH", `/projects/${other.project.id}`, { forge: { kind: "forgejo" } });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${instance.url}/${instance.team}/w/${other.ws.key}?tab=merge`);
    const small = page.getByRole("region", { name: "Pull request", exact: true });
    await small.getByRole("button", { name: "Insert the report into the description" }).click();
    await until("the report is there", async () => (await small.getByLabel("Description").inputValue()).includes(`# ${other.ws.key} Small screen`));
    await small.getByRole("button", { name: "Push and open the pull request" }).click();
    await small.getByRole("link", { name: "#1 Small screen" }).waitFor();
    assert.deepEqual(await axe(page), []);
    await small.getByRole("button", { name: "Close…" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Close" }).click();
    await small.getByText("Closed", { exact: true }).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
