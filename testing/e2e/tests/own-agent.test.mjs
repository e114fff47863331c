// Parawork's own agent in the browser: a key in the settings, its conversation as it is written, questions, diffs, interruptions, its terminal.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, modelServer, password, until } from "../lib/instance.mjs";

describe("Parawork's own agent", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let model;
  let ws;
  let page;
  let session;

  const script = (words, ...steps) => `${words} #script ${JSON.stringify(steps)}`;
  const feed = () => page.getByRole("region", { name: "Conversation" });
  const field = () => page.getByRole("textbox", { name: "Message to Parawork" });
  const home = () => `${instance.url}/${instance.team}/w/${ws.key}`;
  const say = async (text) => {
    await field().fill(text);
    await field().press("Enter");
  };
  const long = Array.from({ length: 40 }, (_, i) => `Line ${i} of a long answer.`).join("\n\n");

  before(async () => {
    [model, instance] = await Promise.all([modelServer(), Instance.start({ outgoing: { allow: ["127.0.0.0/8"] } })]);
    await instance.setUp();
    ws = await instance.workspace("Own agent");
    browser = await launch(["--disable-3d-apis"]);
    page = await newPage(browser, { colorScheme: "dark" });
    await signIn(page, instance, password);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });

  test("a key in the settings is enough to start it with a model and a mode", async () => {
    await page.goto(`${instance.url}/${instance.team}/settings/agents`);
    await page.getByRole("button", { name: "Add an account for Parawork" }).click();
    const form = page.getByRole("group", { name: "New account of Parawork" });
    await form.getByLabel("API key").fill("sk-ant-api03-abcdefghijklmnopqrstuvwxyz");
    await form.getByLabel("Base URL").fill(model.url);
    await form.getByLabel("API", { exact: true }).selectOption("messages");
    await form.getByRole("button", { name: "Use this key" }).click();
    await page.getByRole("list", { name: "Accounts of Parawork" }).getByText(`at ${model.url}`).waitFor();

    await page.goto(home());
    await page.getByRole("radio", { name: /^Parawork/ }).check();
    await page.getByLabel("Model", { exact: true }).fill("claude-opus-4-1");
    await page.getByLabel("Mode", { exact: true }).selectOption("plan");
    await page.getByRole("button", { name: "Start" }).click();
    await feed().getByText("Nothing said yet").waitFor(); // its conversation is its view
    await until("it is idle", async () => {
      session = (await instance.api("GET", `/workspaces/${ws.id}/sessions`)).items[0];
      return session.state === "idle";
    });
    const thread = await instance.api("GET", `/sessions/${session.id}/thread`);
    assert.deepEqual([thread.model, thread.mode], ["claude-opus-4-1", "plan"]);
    await page.getByLabel("Mode", { exact: true }).selectOption("build");
    await until("the mode has changed", async () => (await instance.api("GET", `/threads/${thread.id}`)).thread.mode === "build");
  });

  test("text comes as it is written, a question is answered beside it, and the change is shown", async () => {
    await say(
      script(
        "Write it down.",
        {
          thinking: "A file will do.",
          text: "I write **two** lines.\n\n```go\nfunc main() {}\n```\n\n- one\n- two",
          tools: [{ name: "file_write", input: { path: "notes.txt", content: "first\nsecond\n" } }],
          hold_ms: 800,
          piece_ms: 40,
          usage: { in: 4000, out: 20 },
        },
        { text: "It is written.", usage: { in: 4100, out: 5 } },
      ),
    );
    await page.getByText(/^Step 1: /).waitFor();
    await feed().getByText("I write two lines.").waitFor();
    const question = page.locator("[data-question]");
    await question.getByText("Write a file: notes.txt").waitFor();
    const card = feed().getByRole("button", { name: /file write notes\.txt/ });
    await card.getByText("waits for your answer").waitFor();
    await feed().getByRole("region", { name: "Lines changed" }).getByText("second").waitFor();
    assert.deepEqual(await axe(page), []);
    await question.getByRole("button", { name: /^Allow/ }).click();
    await feed().getByText("It is written.", { exact: true }).waitFor();
    assert.equal(await card.getByText("waits for your answer").count(), 0);
    await feed().getByRole("button", { name: "Thought" }).waitFor(); // folded
    await page.getByText("4.1K tokens").waitFor();
    assert.equal(await page.getByRole("log").textContent(), "Parawork: It is written."); // read out once
    await shot(page, "own-agent-dark");
  });

  test("it is interrupted by Escape and goes on with the next prompt; a reload in the middle loses and doubles nothing", async () => {
    await say(script("Write much.", { text: long, piece_ms: 60 }));
    await feed().getByText("Line 2 of a long answer.", { exact: true }).waitFor();
    assert.equal(await feed().getByText("Line 39 of a long answer.", { exact: true }).count(), 0);
    await field().press("Escape");
    await page.getByText("Interrupted", { exact: false }).first().waitFor();
    await field().press("ArrowUp");
    assert.match(await field().inputValue(), /^Write much/);
    await say(script("Again.", { text: long, piece_ms: 15 }));
    await feed().getByText("Line 3 of a long answer.", { exact: true }).last().waitFor();
    await field().fill("A draft that waits");
    await page.reload();
    await feed().getByText("Line 39 of a long answer.", { exact: true }).waitFor();
    assert.equal(await field().inputValue(), "A draft that waits");
    const atEnd = () => feed().evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight < 60);
    await until("the end is in sight", atEnd);
    await until("the turn has ended", async () => (await instance.api("GET", `/sessions/${session.id}`)).state === "idle");
    const shown = (await feed().locator(".prose-agent").allTextContents()).join("");
    for (const n of [30, 35, 39]) assert.equal(shown.split(`Line ${n} of a long answer.`).length, 2, shown);
    // Who scrolls up is left there.
    await feed().hover();
    await page.mouse.wheel(0, -600);
    await page.getByRole("button", { name: "Jump to latest" }).click();
    await until("the end is in sight again", atEnd);
    await page.getByRole("button", { name: "Jump to latest" }).waitFor({ state: "detached" });
  });

  test("a kill of the server in the middle of an answer is not seen but by a pause, and a failure says how to go on", async () => {
    await say(script("Go on over a kill.", { text: "Before and after.", hold_ms: 1500, piece_ms: 100 }, { text: "All there." }));
    await page.getByText(/^Step 1: /).waitFor();
    await instance.kill();
    await page.getByText("The connection was lost.").waitFor();
    await instance.boot();
    await feed().getByText("Before and after.", { exact: true }).waitFor();
    assert.equal(await feed().getByText("Before and after.", { exact: true }).count(), 1);
    await say(script("Fail once.", { error: { status: 400, type: "invalid_request_error", message: "the model said no", times: 1 } }));
    await page.getByText("The turn failed.").waitFor();
    await page.getByText("model_invalid_request").waitFor();
    await page.getByRole("button", { name: "Retry" }).click();
    await feed().getByText("Go on.", { exact: true }).waitFor();
  });

  test("what was undone is one line, Clear stands in the menu, and a fork has a workspace of its own", async () => {
    await say(script("Add a line.", { text: "I add it.", tools: [{ name: "run_command", input: { command: "echo more >> notes.txt" } }] }, { text: "Added." }));
    await page.locator("[data-question]").getByRole("button", { name: /^Allow/ }).click();
    await feed().getByText("Added.", { exact: true }).waitFor();
    await until("it rests", async () => (await instance.api("GET", `/sessions/${session.id}`)).state === "idle");
    const prompt = feed().getByRole("listitem").filter({ hasText: "Add a line." });
    await prompt.hover();
    await prompt.getByRole("button", { name: "Fork" }).click();
    await page.getByRole("menuitem", { name: /^Fork into a new workspace/ }).click();
    await page.getByText("Own agent (fork)").first().waitFor();
    const fork = (await instance.api("GET", `/teams/${instance.team}/workspaces`)).items.find((w) => w.name === "Own agent (fork)");
    assert.equal(readFileSync(join(fork.path, "notes.txt"), "utf8"), "first\nsecond\n");
    await page.goto(`${home()}?session=${session.id}`);
    await prompt.hover();
    await prompt.getByRole("button", { name: "Undo" }).click();
    await page.getByRole("alertdialog").getByText(/2 messages|3 messages/).waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Undo" }).click();
    const line = feed().getByRole("button", { name: /messages undone/ });
    await line.waitFor();
    assert.equal(await feed().getByText("Added.", { exact: true }).count(), 0);
    await line.click();
    await feed().getByText("Added.", { exact: true }).waitFor();
    await page.getByRole("button", { name: "More for this conversation" }).click();
    await page.getByRole("menuitem", { name: /^Clear/ }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Clear" }).click();
    await feed().getByText("The model no longer reads what is above").waitFor();
  });

  test("its terminal is one tab away and is remembered; a phone has all of it", async () => {
    await page.getByRole("link", { name: "Terminal", exact: true }).click();
    await page.locator(`[data-terminal="${session.id}"]`).waitFor();
    await page.goto(home());
    await page.locator(`[data-terminal="${session.id}"]`).waitFor(); // the view that was chosen last
    await page.getByRole("link", { name: "Conversation" }).click();
    await page.goto(home());
    await feed().waitFor();
    const phone = await newPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme: "light", storageState: await page.context().storageState() });
    await phone.goto(home());
    await phone.getByRole("textbox", { name: "Message to Parawork" }).waitFor();
    assert.deepEqual(await axe(phone), []);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than the phone");
    await shot(phone, "own-agent-phone-light");
    assert.deepEqual([...page.problems, ...phone.problems], []);
  });

  test("a picture goes with the first prompt of a session", async () => {
    await page.goto(home());
    await page.getByRole("button", { name: "New session, shell or split" }).click();
    await page.getByRole("menuitem", { name: "Start another session" }).click();
    const form = page.getByRole("dialog", { name: "Start a session" });
    await form.getByRole("radio", { name: /^Parawork/ }).check();
    await form.getByLabel("Prompt").fill(script("What is it?", { text: "A dot." }));
    const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
    await form.locator("input[type=file]").setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: png });
    await form.getByText("dot.png").waitFor();
    await form.getByRole("button", { name: "Start", exact: true }).click();
    await feed().getByText("A dot.", { exact: true }).waitFor();
    await feed().getByRole("img", { name: "dot.png" }).waitFor();
  });
});
