// Comments on lines of a diff: drafts that stay, a review that waits for a busy Claude Code, is taken back and sent, what answered it,
// the inbox, an approval that is for these files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { agentCli, Instance, modelServer, password, until } from "../lib/instance.mjs";

const claude = agentCli("claude");
const skip = (!haveChromium && "Chromium is not installed") || (!claude && "Claude Code is not installed");

describe("review", { skip }, () => {
  let instance;
  let browser;
  let model;
  before(async () => {
    if (skip) return;
    model = await modelServer();
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] }, // the model listens here
      agents: { "claude-code": { enabled: true, command: claude, defaultArgs: ["--permission-mode", "acceptEdits"] } },
    });
    await instance.setUp();
    browser = await launch();
    await instance.api("PUT", "/me/agent-accounts/claude-code", { kind: "api_key", api_key: "sk-ant-test-0123456789", base_url: model.url });
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });

  const open = async (ws, options) => {
    const page = await newPage(browser, options);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes`);
    return page;
  };
  /** Chooses a line of the newer side by its number. */
  const choose = async (page, text) => {
    const row = page.locator("[data-row]").filter({ hasText: text }).first();
    await row.locator("[data-number=new]").click();
  };

  test("from a comment to the commit that answers it", async () => {
    const ws = await instance.workspace("Reviewed");
    const file = join(ws.path, "made.txt");
    const first = "one\nto\nthree\n";
    const session = await instance.api("POST", `/workspaces/${ws.id}/sessions`, {
      agent: "claude-code",
      // It goes on for long after it has written: the review has to wait.
      prompt: `#script ${JSON.stringify([{ tools: [{ name: "Write", input: { file_path: file, content: first } }] }, { text: "Done.", delay_ms: 600000 }])}`,
    });
    await until("the file is written", () => readFileSync(file, "utf8") === first);

    const page = await open(ws);
    await page.getByText("made.txt").first().waitFor();
    await choose(page, "to");
    await page.keyboard.press("c");
    const box = page.getByRole("textbox", { name: "Comment on line 2" });
    await box.fill(`The number two.\n#write ${JSON.stringify({ path: file, text: "one\ntwo\nthree\n" })}`);
    await shot(page, "review-compose");
    await page.reload(); // what is being written stays
    await until("the text is there", async () => /number two/.test(await box.inputValue()));
    await box.press("Control+Enter");
    const thread = page.getByRole("region", { name: /^Comment by Mika on line 2/ });
    await thread.getByText("Draft").waitFor();
    assert.deepEqual(await axe(page), []);

    // Another device has the draft, too.
    const phone = await open(ws, { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await phone.getByText("made.txt").first().tap();
    await phone.getByRole("region", { name: /^Comment by Mika on line 2/ }).getByText("Draft").waitFor();
    assert.deepEqual(await axe(phone), []);
    await phone.getByRole("button", { name: /^Review/ }).tap();
    await phone.getByRole("dialog", { name: "Review" }).waitFor();
    assert.deepEqual(await axe(phone), []);
    await shot(phone, "review-phone");
    assert.deepEqual(phone.problems, []);
    await phone.context().close();

    // The agent is busy: the review waits, and is taken back.
    const send = async (sent) => {
      await page.keyboard.press("Control+Shift+Enter");
      const dialog = page.getByRole("dialog", { name: "Review" });
      assert.equal(await dialog.getByLabel(/^Comment/).isChecked(), sent, "no verdict is given unasked");
      await dialog.getByLabel(/Request changes/).check();
      await until("it goes to the agent", async () => (await dialog.getByLabel("Send to").inputValue()) === session.id);
      return dialog;
    };
    let dialog = await send(true);
    await dialog.getByLabel("Summary").fill("Nearly there.");
    assert.deepEqual(await axe(page), []);
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    const standing = page.getByRole("region", { name: "Review", exact: true });
    await standing.getByText("Review queued").waitFor();
    await standing.getByText("the agent is working").waitFor();
    await shot(page, "review-queued");
    await standing.getByRole("button", { name: "Unsend" }).click();
    await thread.getByText("Draft").waitFor();

    // It becomes idle, gets the review, and fixes the line.
    await instance.api("POST", `/sessions/${session.id}/interrupt`, {});
    dialog = await send(false);
    assert.equal(await dialog.getByLabel("Summary").inputValue(), "Nearly there.", "the body came back with the draft");
    await dialog.getByRole("button", { name: "Send", exact: true }).dblclick();
    await dialog.waitFor({ state: "detached" });
    await until("the agent has fixed it", () => readFileSync(file, "utf8") === "one\ntwo\nthree\n");
    await thread.getByText("Changed", { exact: true }).waitFor();
    const prompts = (await instance.api("GET", `/sessions/${session.id}/prompts`)).items;
    assert.equal(prompts.filter((p) => p.text.startsWith("This is a review") && p.state !== "cancelled").length, 1, "a double click sends it once");
    const asked = prompts.findLast((p) => p.state === "sent").text;
    assert.match(asked, /^This is a review of your changes by Mika, which asks for changes\.\n\nNearly there\.\n\nOne comment\..*\n\n1\. made\.txt, line 2\n\| to\nThe number two\./);
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "Write the number two" });
    await thread.getByText("Write the number two").waitFor();
    await thread.getByText("original code").waitFor();
    const answer = await thread.getByRole("link", { name: "Show the commit" }).getAttribute("href");
    assert.match(answer, /from=[0-9a-f]{40}(\^|%5E)&to=[0-9a-f]{40}/);
    await shot(page, "review-answered");

    // The author sees it, and resolves the comment.
    const inbox = await until("the inbox has it", async () => (await instance.api("GET", `/teams/${instance.team}/inbox`)).items.find((i) => i.kind === "review"));
    assert.match(inbox.reason, /lines you commented on have changed/);
    await thread.getByRole("button", { name: "Resolve" }).click();
    await page.getByText("✓ Resolved").first().waitFor();
    await until("the inbox is empty of it", async () => !(await instance.api("GET", `/teams/${instance.team}/inbox`)).items.some((i) => i.kind === "review"));
    await page.keyboard.press("l");
    dialog = page.getByRole("dialog", { name: "Comments" });
    await dialog.getByRole("button", { name: /^Resolved 1/ }).click();
    await dialog.getByText("The number two.").waitFor();
    assert.deepEqual(await axe(page), []);
    await shot(page, "review-all");
    await page.keyboard.press("Escape");

    // Two agents are at work: one gets it, and the other one too when that is said.
    const second = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "claude-code", prompt: `#script ${JSON.stringify([{ text: "Here." }])}` });
    await until("the second rests", async () => (await instance.api("GET", `/sessions/${second.id}`)).state === "idle");
    await page.reload();
    await page.getByText("made.txt").first().waitFor();
    await page.getByRole("button", { name: /^Review/ }).click();
    dialog = page.getByRole("dialog", { name: "Review" });
    await until("who worked last is meant", async () => (await dialog.getByLabel("Send to").inputValue()) === second.id);
    await dialog.getByRole("group", { name: "Also to" }).getByRole("checkbox").check();
    await dialog.getByLabel("Summary").fill("For both of you.");
    assert.deepEqual(await axe(page), []);
    await shot(page, "review-also-to");
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    for (const s of [session, second])
      await until(`${s.id} has it`, async () => (await instance.api("GET", `/sessions/${s.id}/prompts`)).items.some((p) => /For both of you/.test(p.text)));
    await until("both have read it", async () => (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items.every((s) => s.state === "idle"));

    // An approval is for the files that were read.
    await page.reload();
    await page.getByRole("button", { name: /^Review/ }).click();
    dialog = page.getByRole("dialog", { name: "Review" });
    await dialog.getByLabel(/^Approve/).check();
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await standing.getByText("Approved", { exact: true }).waitFor();
    assert.equal((await instance.api("GET", `/workspaces/${ws.id}`)).review.approved, true);
    const put = await fetch(`${instance.url}/api/v1/workspaces/${ws.id}/files?path=more.txt`, { method: "PUT", headers: { Authorization: `Bearer ${instance.token}` }, body: "more\n" });
    assert.ok(put.ok);
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await standing.getByText("1 change, by you").waitFor();
    assert.equal((await instance.api("GET", `/workspaces/${ws.id}`)).review.state, "stale");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
