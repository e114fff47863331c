// From "the agent is done" to "it is merged": update from a base that moves, conflicts that the agent resolves, a merge of what was seen
// and nothing else, and the push, against a real git host.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { gitHost } from "../lib/githost.mjs";
import { Instance, password, root, until } from "../lib/instance.mjs";

// An agent that resolves conflicts when it is asked to: it keeps what both sides say.
const program = String.raw`#!/bin/bash
stty -echoctl
say() { printf '\033]7501;state=%s:app=codex\033\\' "$1"; }
printf '\033[?2004hready\r\n'; say idle
while IFS= read -r line; do
  case $line in *'Resolve them'*)
    say working
    git diff --name-only --diff-filter=U -z | while IFS= read -r -d '' f; do sed -i '/^<<<<<<<\|^=======\|^>>>>>>>/d' "$f"; done
    git add -A . ':!loose.txt' && git -c user.name=Agent -c user.email=agent@example.com commit -q --no-edit
    say idle ;;
  esac
done
`;

function resolver() {
  const dir = join(root, ".cache/e2e");
  mkdirSync(dir, { recursive: true });
  const path = join(dir, "resolver");
  writeFileSync(path, program);
  chmodSync(path, 0o755);
  return { command: path };
}

// Three pictures of one pixel.
const png = (n) =>
  Buffer.from(
    `iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCA${["QAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=", "YAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==", "YAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="][n]}`,
    "base64",
  );

describe("update, merge and push", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let host;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    host = await gitHost({ "list.txt": "one\ntwo\nthree\n", "README.md": "An app\n", "logo.png": png(0), "old.txt": "old\n", "words.txt": "a\n" });
    instance = await Instance.start({ agents: { codex: resolver() }, outgoing: { allow: ["127.0.0.1/32"] } });
    await instance.setUp();
    await instance.api("PUT", "/me/agent-accounts/codex", { kind: "terminal" });
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    host?.stop();
  });

  test("update, resolve, merge what was seen, push", async () => {
    const project = await instance.api("POST", `/teams/${instance.team}/projects`, { source: { kind: "url", url: host.url } });
    await until("the project is cloned", async () => {
      const p = await instance.api("GET", `/projects/${project.id}`);
      if (p.state === "failed") throw new Error(`clone failed: ${p.state_reason}`);
      return p.state === "ready";
    });
    const ws = await instance.newWorkspace(project.id, "Update and merge");
    writeFileSync(join(ws.path, "list.txt"), "one\nours\nthree\n");
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "Ours" });
    writeFileSync(join(ws.path, "loose.txt"), "not committed\n");

    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    await page.getByText("1 commit not in main").waitFor();
    const update = page.getByRole("region", { name: "Update from main" });
    assert.equal(await update.count(), 0, "there is nothing to update from");

    // What others did comes in, and what is not committed stays.
    host.others({ "others.txt": "theirs\n" }, "Others");
    await page.getByRole("button", { name: "Fetch" }).click();
    await update.getByText("No conflicts").waitFor();
    await shot(page, "bring-home-update");
    assert.deepEqual(await axe(page), []);
    await update.getByRole("button", { name: "Merge main into the branch" }).click();
    await page.getByText(`${ws.key} is up to date with main`, { exact: true }).waitFor();
    assert.equal(readFileSync(join(ws.path, "others.txt"), "utf8"), "theirs\n");
    assert.equal(readFileSync(join(ws.path, "loose.txt"), "utf8"), "not committed\n");
    await until("the card is gone", async () => (await update.count()) === 0);

    // Both changed the same line: both sides are shown, and the agent is asked.
    host.others({ "list.txt": "one\ntheirs\nthree\n" }, "Theirs");
    await page.getByRole("button", { name: "Fetch" }).click();
    await update.getByText("1 file with conflicts").waitFor();
    await update.getByText("list.txt").click();
    await update.getByText("ours", { exact: true }).waitFor();
    await update.getByText("theirs", { exact: true }).waitFor();
    await shot(page, "bring-home-conflict");
    assert.deepEqual(await axe(page), []);
    assert.equal(readFileSync(join(ws.path, "list.txt"), "utf8"), "one\nours\nthree\n", "looking touched no file");
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "codex" });
    await until("the agent is ready", async () => (await instance.output(s.id)).includes("ready"));
    await page.reload();
    await update.getByRole("button", { name: "Ask agent to resolve" }).click();
    await page.waitForURL(/session=/);
    await until("the agent has resolved it", async () => {
      const st = await instance.api("GET", `/workspaces/${ws.id}/merge-status`);
      return st.up_to_date && st.under_way === "";
    });
    assert.equal(readFileSync(join(ws.path, "list.txt"), "utf8"), "one\nours\ntheirs\nthree\n");

    // Again, manually: the remaining conflicts are listed, the file is fixed, and the merge is finished here.
    host.others({ "list.txt": "one\nours\ntheirs, too\nthree\n" }, "Theirs again");
    writeFileSync(join(ws.path, "list.txt"), "one\nours, too\ntheirs\nthree\n");
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "Ours again", paths: ["list.txt"] });
    await instance.api("GET", `/workspaces/${ws.id}/merge-status?fetch=true`);
    await instance.api("POST", `/workspaces/${ws.id}/update/resolve`, { how: "shell", strategy: "merge" });
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await page.getByRole("link", { name: "Checks & merge", exact: true }).click();
    await update.getByRole("list", { name: "Conflicting files" }).getByText("list.txt", { exact: true }).first().waitFor();
    await update.getByRole("link", { name: "Edit list.txt" }).waitFor();
    await shot(page, "bring-home-under-way");
    assert.deepEqual(await axe(page), []);
    await update.getByText("A merge is in progress", { exact: true }).waitFor();
    await update.getByRole("button", { name: "Finish the merge" }).click();
    await page.getByText(/1 file has conflict markers \(<<<<<<< or >>>>>>>\) left/).first().waitFor(); // a toast, and what reads it out
    writeFileSync(join(ws.path, "list.txt"), "one\nours\ntheirs\nthree\n");
    await update.getByRole("button", { name: "Finish the merge" }).click();
    await page.getByText("The merge is finished", { exact: true }).waitFor();
    await until("the card is gone", async () => (await update.count()) === 0);

    // The base moves under the reader between the look and the click: nothing is merged until it was seen.
    const merge = page.getByRole("region", { name: "Merge into main" });
    await merge.getByText("Squash", { exact: true }).click();
    await merge.getByLabel("Attach the report to the merge").check();
    await merge.getByText("No conflicts").waitFor();
    let moved = false;
    await page.route("**/api/v1/workspaces/*/merge", async (route) => {
      if (!moved && !route.request().postDataJSON().dry_run) {
        moved = true;
        host.others({ "late.txt": "late\n" }, "Late");
        await instance.api("GET", `/workspaces/${ws.id}/merge-status?fetch=true`);
      }
      await route.continue();
    });
    const go = merge.getByRole("button", { name: "Squash and merge" });
    await until("the button is ready", async () => go.isEnabled());
    await go.click();
    await merge.getByText(/main moved since you looked/).waitFor();
    assert.equal((await instance.api("GET", `/workspaces/${ws.id}`)).merged_at, null);
    await until("it is shown anew", async () => go.isEnabled());
    await shot(page, "bring-home-moved");
    await go.click();
    await merge.getByText("Merged into main", { exact: true }).waitFor();
    await merge.getByRole("button", { name: "Archive the workspace" }).waitFor();
    await merge.getByText(/^The report is attached to/).waitFor();
    await page.reload(); // what is next is there for who comes later, too
    await merge.getByRole("button", { name: "Push main to the remote" }).waitFor();
    await merge.getByText(/^The report is attached to/).waitFor();
    await shot(page, "bring-home-merged");
    await page.getByRole("link", { name: "Timeline", exact: true }).click();
    await page.getByRole("listitem").filter({ hasText: "Finished the merge" }).waitFor();
    assert.equal(await page.getByRole("listitem").filter({ hasText: "Ours again" }).count(), 1, "a commit appears once");
    await until("what is merged is not offered again", async () => (await page.getByRole("button", { name: "Merge…" }).count()) === 0);
    await page.getByRole("button", { name: "Commit", exact: true }).waitFor(); // loose.txt
    await page.goBack();
    assert.deepEqual(await axe(page), []);
    assert.ok(existsSync(join(ws.path, "loose.txt")));

    // What is merged here goes to the remote, and the branch with it.
    const push = page.getByRole("region", { name: "Push", exact: true });
    await push.getByRole("button", { name: /^Push main/ }).click();
    await page.getByText("main is pushed", { exact: true }).waitFor();
    assert.equal(host.git("show", "main:list.txt"), "one\nours\ntheirs\nthree");
    assert.equal(host.git("show", "main:late.txt"), "late");
    await push.getByRole("button", { name: "Push the branch" }).click();
    await page.getByText(`${ws.branch} is pushed`, { exact: true }).waitFor();
    assert.equal(host.git("rev-parse", ws.branch), (await instance.api("GET", `/workspaces/${ws.id}/merge-status`)).head);

    await page.setViewportSize({ width: 390, height: 844 });
    await shot(page, "bring-home-phone");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is cut at 390 px");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("files without lines are decided, by keys and on a phone", async () => {
    const [project] = (await instance.api("GET", `/teams/${instance.team}/projects`)).items;
    const ws = await instance.newWorkspace(project.id, "Pictures");
    writeFileSync(join(ws.path, "logo.png"), png(1));
    writeFileSync(join(ws.path, "words.txt"), "ours\n");
    rmSync(join(ws.path, "old.txt"));
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "A logo of ours" });
    host.others({ "logo.png": png(2), "old.txt": "old and new\n", "words.txt": "theirs\n" }, "A logo of theirs");
    await instance.api("GET", `/workspaces/${ws.id}/merge-status?fetch=true`);
    await instance.api("POST", `/workspaces/${ws.id}/update/resolve`, { how: "shell", strategy: "rebase" });

    const page = await newPage(browser);
    await page.setViewportSize({ width: 390, height: 844 });
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const update = page.getByRole("region", { name: "Update from main" });
    const of = (name) => update.getByRole("group", { name: `Resolution of ${name}` });
    await update.getByText("A rebase is in progress", { exact: true }).waitFor();
    await update.getByRole("img", { name: `logo.png, on ${ws.branch}` }).waitFor();
    await update.getByRole("img", { name: "logo.png, on main" }).waitFor();
    await update.getByText("Deleted it", { exact: true }).waitFor();
    await update.getByText("Conflict markers in lines 1, 5").waitFor();
    await shot(page, "conflicts-phone");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is cut at 390 px");
    assert.deepEqual(await axe(page), []);

    // What nobody has decided is not finished.
    await update.getByRole("button", { name: "Finish the rebase" }).click();
    await page.getByText(/2 files in conflict have no lines/).first().waitFor();

    // By keys: the picture of the base, undone, and both of them.
    await of("logo.png").getByRole("button", { name: "Use the version on main" }).focus();
    await page.keyboard.press("Enter");
    await update.getByText("Resolved as on main", { exact: true }).waitFor();
    assert.deepEqual(readFileSync(join(ws.path, "logo.png")), png(2));
    await update.getByRole("button", { name: "Undo the resolution of logo.png", disabled: false }).focus();
    await page.keyboard.press("Enter");
    // While the undoing is on its way no button takes a key.
    await update.getByText("Resolved as on main", { exact: true }).waitFor({ state: "hidden" });
    const both = of("logo.png").getByRole("button", { name: "Keep both, the one of main as logo.main.png", disabled: false });
    await both.waitFor();
    await both.focus();
    await page.keyboard.press("Enter");
    await update.getByText("Kept both", { exact: true }).waitFor();
    assert.deepEqual(readFileSync(join(ws.path, "logo.png")), png(1));
    assert.deepEqual(readFileSync(join(ws.path, "logo.main.png")), png(2));

    // What the agent settled meanwhile is not decided over its head.
    const stale = page.waitForResponse((r) => r.url().endsWith("/update/conflicts") && r.request().method() === "POST");
    await page.route("**/update/conflicts", async (route) => {
      if (route.request().method() === "POST") execFileSync("git", ["rm", "-q", "old.txt"], { cwd: ws.path });
      await route.continue();
    });
    await of("old.txt").getByRole("button", { name: "Keep the file" }).click();
    assert.equal((await stale).status(), 409);
    await page.getByText("old.txt was not resolved").first().waitFor();
    await update.getByText("Deleted", { exact: true }).waitFor();
    await page.unroute("**/update/conflicts");
    await update.getByRole("button", { name: "Undo the resolution of old.txt" }).click();
    await of("old.txt").getByRole("button", { name: "Keep the file" }).click();
    await update.getByText("Kept", { exact: true }).waitFor();

    await of("words.txt").getByRole("button", { name: `Use all of ${ws.branch}` }).click();
    await update.getByText(`Resolved as on ${ws.branch}`, { exact: true }).waitFor();
    await page.setViewportSize({ width: 1280, height: 800 });
    await shot(page, "conflicts-decided");
    assert.deepEqual(await axe(page), []);
    await update.getByRole("button", { name: "Finish the rebase" }).click();
    await page.getByText("The rebase is finished", { exact: true }).waitFor();
    assert.equal(readFileSync(join(ws.path, "old.txt"), "utf8"), "old and new\n");
    assert.equal(readFileSync(join(ws.path, "words.txt"), "utf8"), "ours\n");
    assert.ok(existsSync(join(ws.path, "logo.main.png")));
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    const st = await instance.api("GET", `/workspaces/${ws.id}/merge-status`);
    assert.ok(st.up_to_date && st.under_way === "" && st.dirty === 0, JSON.stringify(st));
    assert.deepEqual(
      page.problems.filter((p) => !p.includes("409")),
      [],
    );
    await page.context().close();
  });
});
