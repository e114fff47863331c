// The real Claude Code asks before it writes a file; people answer below the terminal, in the inbox and on a phone.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { agentCli, Instance, modelServer, password, until } from "../lib/instance.mjs";

const claude = agentCli("claude");
const skip = (!haveChromium && "Chromium is not installed") || (!claude && "Claude Code is not installed");
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

describe("answers", { skip }, () => {
  let instance;
  let browser;
  let model;
  let ws;
  let n = 0;
  before(async () => {
    if (skip) return;
    model = await modelServer();
    instance = await Instance.start({ outgoing: { allow: ["127.0.0.0/8"] }, agents: { "claude-code": { enabled: true, command: claude } } });
    await instance.setUp();
    await instance.api("PUT", "/me/agent-accounts/claude-code", {
      kind: "api_key",
      api_key: "sk-ant-test-0123456789",
      base_url: model.url,
    });
    ws = await instance.workspace("Ask before writing");
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });

  const at = (path) => `${instance.url}/${instance.team}${path}`;

  const start = (prompt) =>
    instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "claude-code", prompt, cols: 120, rows: 32 });
  // On a busy machine a question is read off the screen first; the one of the agent's hook takes its place a moment later.
  const asked = (s, title = "") =>
    until(
      `it asks ${title}`,
      async () => {
        const { question } = await instance.api("GET", `/sessions/${s.id}`);
        return question?.title.includes(title) && question.source === "hook" && question;
      },
    );

  /** A new session that asks whether it may write a file; the session, its question and the file. */
  async function asking() {
    const file = join(ws.path, `asked-${++n}.txt`);
    const s = await start(`#write {"path":"${file}","text":"by claude\\n"}`);
    return { s, question: await asked(s), file };
  }
  const written = (file) => until("the file is written", () => readFileSync(file, "utf8") === "by claude\n");
  const end = (s) => instance.api("POST", `/sessions/${s.id}/stop`, { grace_ms: 1000 });
  async function open(path, options) {
    const page = await newPage(browser, options);
    await signIn(page, instance, password);
    await page.goto(at(path));
    return page;
  }
  /** A new question takes no answer for a moment; then its first option can be pressed and shows its key. */
  const takesKeys = (place) => place.locator("[data-answer]:enabled:has(kbd)").first().waitFor();
  const bar = (page, question) => page.locator(`[data-question="${question.id}"]`);
  async function close(...pages) {
    for (const page of pages) {
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
  }

  test("below the terminal, by key; the inbox of another page clears", async () => {
    const { s, question, file } = await asking();
    const page = await open(`/w/${ws.key}?session=${s.id}`);
    const other = await open("/inbox");
    await bar(page, question).waitFor();
    const item = other.getByRole("listitem", { name: ws.name }).filter({ hasText: question.title });
    await item.waitFor();
    await until(
      "both titles count it",
      async () => (await page.title()).startsWith("(1) ") && (await other.title()).startsWith("(1) "),
    );
    await shot(page, "question-bar");

    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.press("Control+Shift+A");
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-answer")), "allow");
    assert.ok(!existsSync(file));
    await page.keyboard.press("a");
    await written(file);
    await bar(page, question).waitFor({ state: "detached" });
    await item.waitFor({ state: "detached" });
    // The focus is back where it was: in the terminal.
    await until("the focus returns", () =>
      page.evaluate(() => document.activeElement?.classList.contains("xterm-helper-textarea")),
    );
    await end(s);
    await close(page, other);
  });

  test("in the inbox, by key; the bar of another page says who answered", async () => {
    const { s, question, file } = await asking();
    const page = await open("/inbox");
    const other = await open(`/w/${ws.key}?session=${s.id}`);
    await bar(other, question).waitFor();
    const item = page.getByRole("listitem", { name: ws.name }).filter({ hasText: question.title });
    await item.getByRole("button", { name: /^Open/ }).focus(); // what had the keys before may be of another session
    await takesKeys(item);
    const told = other.getByText(/Answered by Mika/).first().waitFor(); // for a moment only
    told.catch(() => {}); // judged below: where the answer never came, that is what failed
    await page.keyboard.press("a");
    await written(file);
    await told;
    await item.waitFor({ state: "detached" });
    await bar(other, question).waitFor({ state: "detached" });
    await end(s);
    await close(page, other);
  });

  test("on a phone, by touch, without touching the terminal's size", async () => {
    const { s, question, file } = await asking();
    const before = await instance.api("GET", `/sessions/${s.id}`);
    const page = await open(`/w/${ws.key}?session=${s.id}`, PHONE);
    await bar(page, question).waitFor();
    assert.equal(await page.locator(".xterm").count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement === document.body), true, "nothing takes the focus");
    const allow = bar(page, question).locator("[data-answer=allow]");
    assert.ok((await allow.boundingBox()).height >= 44);
    await page.getByRole("region", { name: /Last lines/ }).waitFor();
    await shot(page, "answer-phone");
    // With the phone's keyboard up the page is half as high: the question and the field stay in sight.
    await page.getByLabel(/^Message to/).focus();
    await page.setViewportSize({ width: 390, height: 470 });
    for (const what of [allow, page.getByLabel(/^Message to/)]) {
      const box = await what.boundingBox();
      assert.ok(box.y >= 0 && box.y + box.height <= 470, JSON.stringify(box));
    }
    await shot(page, "answer-phone-keyboard");
    await page.setViewportSize(PHONE.viewport);
    await allow.tap();
    await written(file);
    await bar(page, question).waitFor({ state: "detached" });

    await page.getByLabel(/^Message to/).fill("And now?");
    await page.getByRole("button", { name: "Send", exact: true }).tap();
    await page.getByRole("region", { name: /Last lines/ }).getByText("And now?").waitFor();
    const after = await instance.api("GET", `/sessions/${s.id}`);
    assert.deepEqual([after.cols, after.rows], [before.cols, before.rows]);
    await page.getByRole("link", { name: "Live terminal" }).tap();
    await page.locator("[data-link=live]").waitFor();
    await page.getByRole("toolbar", { name: "Keys" }).waitFor();
    await page.getByRole("link", { name: /Back to the last lines/ }).tap();
    await page.getByRole("toolbar", { name: "Quick replies" }).waitFor();
    await end(s);
    await close(page);
  });

  test("denied with a reason", async () => {
    const { s, question, file } = await asking();
    const page = await open(`/w/${ws.key}?session=${s.id}`);
    await bar(page, question)
      .getByRole("button", { name: /Deny with a reason/ })
      .click();
    await page.getByLabel(/Why not/).fill("Use another name");
    await page.keyboard.press("Enter");
    await bar(page, question).waitFor({ state: "detached" });
    const asked = (await instance.api("GET", `/sessions/${s.id}/questions`)).items.find((q) => q.id === question.id);
    assert.equal(asked.state, "answered");
    assert.equal(asked.via, "workspace");
    assert.match(asked.answer, /Use another name/);
    assert.ok(!existsSync(file));
    await end(s);
    await close(page);
  });

  test("one of several by its number, several by their boxes, and words of one's own", async () => {
    const options = (...labels) => labels.map((label) => ({ label, description: `About ${label}` }));
    const questions = [
      { question: "Which colour?", header: "Colour", multiSelect: false, options: options("Red", "Blue") },
      { question: "Which sizes?", header: "Sizes", multiSelect: true, options: options("Small", "Middle", "Large") },
      { question: "Which name?", header: "Name", multiSelect: false, options: options("Ada", "Bob") },
    ];
    const s = await start(`#script ${JSON.stringify([{ tools: [{ name: "AskUserQuestion", input: { questions } }] }])}`);
    const colour = await asked(s, "Which colour?");
    const page = await open(`/w/${ws.key}?session=${s.id}`);
    await bar(page, colour).getByText("About Blue").waitFor();
    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.press("Control+Shift+A");
    await takesKeys(bar(page, colour));
    await page.keyboard.press("2");
    const sizes = await asked(s, "Which sizes?");
    await bar(page, sizes).getByLabel("Small").check();
    await bar(page, sizes).getByLabel("Large").check();
    await shot(page, "question-multi");
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await bar(page, sizes).getByRole("button", { name: "Send 2 chosen" }).click();
    const name = await asked(s, "Which name?");
    await bar(page, name).getByRole("button", { name: /Answer in other words/ }).click();
    await page.getByLabel("Another answer").fill("Cleo");
    await page.keyboard.press("Enter");
    await bar(page, name).waitFor({ state: "detached" });
    const all = (await instance.api("GET", `/sessions/${s.id}/questions`)).items;
    const three = all.filter((q) => q.source === "hook");
    assert.deepEqual(three.map((q) => q.answer).sort(), ["Blue", "Cleo", "Small, Large"], JSON.stringify(all, null, 1));
    await end(s);
    await close(page);
  });

  test("a late answer shows what was already answered", async () => {
    const { s, question } = await asking();
    const page = await open(`/w/${ws.key}?session=${s.id}`);
    await bar(page, question).waitFor();
    const deny = question.options.find((o) => o.role === "deny");
    await page.route("**/answer", async (route) => {
      await instance.api("POST", `/sessions/${s.id}/answer`, { question_id: question.id, option_id: deny.id });
      await route.continue();
    });
    await bar(page, question).locator("[data-answer=allow]").click();
    await page.getByText(/Already answered by Mika/).first().waitFor();
    await bar(page, question).waitFor({ state: "detached" });
    await end(s);
    await close(page);
  });

  test("accessible in both themes, wide and on a phone", async () => {
    const { s, question } = await asking();
    for (const colorScheme of ["dark", "light"]) {
      for (const [size, options] of [
        ["wide", {}],
        ["phone", PHONE],
      ]) {
        const page = await open(`/w/${ws.key}?session=${s.id}`, { ...options, colorScheme, reducedMotion: "reduce" });
        await bar(page, question).waitFor();
        await shot(page, `question-${colorScheme}-${size}`);
        assert.deepEqual(await axe(page, [".xterm"]), [], `question ${colorScheme} ${size}`);
        await page.goto(at("/inbox"));
        await page.getByText(question.title).filter({ visible: true }).first().waitFor();
        await shot(page, `inbox-question-${colorScheme}-${size}`);
        assert.deepEqual(await axe(page), [], `inbox ${colorScheme} ${size}`);
        await close(page);
      }
    }
    await end(s);
  });
});
