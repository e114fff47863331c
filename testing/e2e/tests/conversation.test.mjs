// What real agents did, read as a conversation beside their terminal: prompts, tools, edits, errors, tokens, search, the phone.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { agentCli, Instance, modelServer, password, until } from "../lib/instance.mjs";

const claude = agentCli("claude");
const skip = (!haveChromium && "Chromium is not installed") || (!claude && "the agent's CLI is not installed");

describe("conversation", { skip }, () => {
  let instance;
  let browser;
  let model;
  let ws;
  let first;
  let page;

  const script = (words, ...steps) => `${words} #script ${JSON.stringify(steps)}`;
  const type = async (id, prompt) => {
    await instance.api("POST", `/sessions/${id}/input`, { text: `\x1b[200~${prompt}\x1b[201~` });
    await new Promise((r) => setTimeout(r, 400)); // an Enter glued to a paste is taken for a part of it
    await instance.api("POST", `/sessions/${id}/input`, { text: "\r" });
  };
  const items = async (id, query = "") => (await instance.api("GET", `/sessions/${id}/conversation?limit=200${query}`)).items;
  const feed = () => page.getByRole("region", { name: "Conversation" });

  before(async () => {
    model = await modelServer();
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] }, // the model listens here
      agents: { "claude-code": { enabled: true, command: claude, defaultArgs: ["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Edit,Write"] } },
    });
    await instance.setUp();
    await instance.api("PUT", "/me/agent-accounts/claude-code", { kind: "api_key", api_key: "sk-ant-test-0123456789", base_url: model.url });
    ws = await instance.workspace("Read along");
    const file = join(ws.path, "greet.txt");
    writeFileSync(file, "one\ntwo\nthree\n");
    const session = await instance.api("POST", `/workspaces/${ws.id}/sessions`, {
      agent: "claude-code",
      prompt: script(
        "Say it in German.",
        { thinking: "Only the second line.", text: "I look at `greet.txt` first.", tools: [{ name: "Read", input: { file_path: file } }], usage: { in: 100, out: 20, cache_read: 1000 } },
        { tools: [{ name: "Edit", input: { file_path: file, old_string: "two", new_string: "zwei" } }, { name: "Bash", input: { command: "ls nowhere" } }], usage: { in: 10, out: 30 } },
        {
          text: "**Done.** See [the docs](https://example.com/docs) and <script>alert(1)</script>\n\n```go\nfunc main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |",
          usage: { in: 130, out: 50 },
        },
      ),
    });
    first = session.id;
    browser = await launch(["--disable-3d-apis"]);
    page = await newPage(browser, { colorScheme: "dark" });
    await signIn(page, instance, password);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    model?.stop();
  });

  test("what the scripted model said and did stands there, and nothing else", async () => {
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}`);
    await page.getByRole("link", { name: "Conversation" }).click();
    await feed().getByText("Done.", { exact: true }).waitFor({ timeout: 60_000 });
    await until("the turn's tokens are shown", async () => (await items(first)).some((i) => i.kind === "usage" && i.usage.output === 100));
    assert.deepEqual(
      (await items(first)).map((i) => [i.kind, i.tool || i.text.split(" #script")[0], i.status].filter(Boolean).join(" ").split("\n")[0]),
      ["prompt Say it in German.", "thinking Only the second line.", "text I look at `greet.txt` first.", "tool Read ok", "edit Edit ok", "tool Bash failed", "text **Done.** See [the docs](https://example.com/docs) and <script>alert(1)</script>", "usage"],
    );
    await feed().getByText("+zwei").or(feed().getByText("zwei", { exact: true })).first().waitFor(); // a small edit is unfolded
    assert.equal(await page.locator("script", { hasText: "alert(1)" }).count(), 0);
    await feed().locator(".prose-agent", { hasText: "<script>alert(1)</script>" }).waitFor();
    await page.getByText("240 in, 100 out, 1K from the cache").first().waitFor();

    // Tools unfold.
    const bash = feed().getByRole("button", { name: /Bash/ });
    assert.equal(await bash.getAttribute("aria-expanded"), "false");
    await bash.click();
    await feed().getByText("No such file or directory").waitFor();
    await feed().locator(".hl-keyword", { hasText: "func" }).waitFor(); // coloured by the worker

    // A link is asked about when its text says something else.
    await feed().getByRole("button", { name: "the docs" }).click();
    await page.getByText("https://example.com/docs").last().waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    assert.deepEqual(await axe(page), []);
    await shot(page, "conversation-dark");
    assert.deepEqual(page.problems, []);
  });

  test("keys walk and unfold, an edit leads to Changes", async () => {
    await feed().click({ position: { x: 5, y: 5 } });
    await page.keyboard.press("k");
    await page.keyboard.press("k");
    const current = feed().locator("[aria-current=true]");
    await current.waitFor();
    const before = await current.textContent();
    await page.keyboard.press("j");
    await until("the next step is in hand", async () => (await current.textContent()) !== before);
    await feed().evaluate((el) => el.scrollTo(0, 0)); // rows out of sight are not there
    await feed().getByRole("link", { name: "greet.txt in Changes" }).click();
    await page.waitForURL(/tab=changes/);
    await feed().getByRole("link", { name: "Replay" }).first().click();
    await page.waitForURL((u) => u.searchParams.get("tab") === "history" && u.searchParams.get("session") === first && u.searchParams.has("at"));
    await page.goBack();
    await feed().waitFor();
  });

  test("it grows while the agent works, follows the end, and shows errors and a restart", async () => {
    await type(first, script("Fail.", { error: { status: 400, type: "invalid_request_error", message: "the model said no" } }));
    await feed().getByText("API Error: 400 the model said no").waitFor({ timeout: 60_000 });
    await instance.kill();
    await instance.boot();
    const long = Array.from({ length: 60 }, (_, i) => `Line ${i} of many.`).join("\n\n");
    await until("it is taken up", async () => (await instance.api("GET", `/sessions/${first}`)).state === "idle");
    await feed().evaluate((el) => el.scrollTo(0, el.scrollHeight)); // it was scrolled up before, and stays there
    await type(first, script("Go on.", { text: long, usage: { in: 1, out: 1 } }));
    await feed().getByText("Line 59 of many.", { exact: true }).waitFor({ timeout: 60_000 });
    const atEnd = () => feed().evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight < 60);
    await until("it shows the end", atEnd);
    // Who scrolls up is left alone.
    await feed().evaluate((el) => el.scrollTo(0, 0));
    await page.getByRole("button", { name: "Jump to latest" }).waitFor();
    await type(first, script("And more.", { text: "The very last word.", usage: { in: 1, out: 1 } }));
    await until("it is kept", async () => (await items(first)).some((i) => i.text === "The very last word."));
    assert.ok(await feed().evaluate((el) => el.scrollTop < 200));
    await page.getByRole("button", { name: "Jump to latest" }).click();
    await feed().getByText("The very last word.", { exact: true }).waitFor();
    assert.deepEqual(page.problems, []);
  });

  test("search, filters and past sessions", async () => {
    await instance.api("POST", `/sessions/${first}/stop`, { grace_ms: 2000 });
    const next = await instance.api("POST", `/sessions/${first}/resume`);
    await until("it goes on", async () => (await instance.api("GET", `/sessions/${next.id}`)).state === "idle");
    // The queue types it when the agent is ready for it.
    await instance.api("POST", `/sessions/${next.id}/prompts`, { text: script("Say goodbye.", { text: "Auf Wiedersehen.", usage: { in: 1, out: 1 } }) });
    await until("it is kept", async () => (await items(next.id)).some((i) => i.text === "Auf Wiedersehen."));
    assert.ok(!(await items(next.id)).some((i) => i.text.includes("German")), "the session before is repeated");

    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation`);
    await feed().getByText("Auf Wiedersehen.", { exact: true }).waitFor();
    await page.getByLabel("Search the conversation").fill("zwei");
    await page.getByText("Nothing found").waitFor(); // this session has none
    await page.getByLabel("All sessions").check();
    await page.getByRole("button", { name: /Edit/ }).first().click();
    await feed().getByText("zwei", { exact: true }).first().waitFor();
    await page.getByLabel("What is shown").selectOption("Edits");
    await until("only edits are left", async () => (await feed().getByRole("listitem").count()) === 1);
    assert.deepEqual(await axe(page), []);

    await page.getByLabel("What is shown").selectOption("Everything");
    await page.getByRole("navigation", { name: "Sessions" }).locator(`a[href*="${next.id}"]`).click();
    await page.getByRole("button", { name: "Show that session" }).click();
    await page.waitForURL((u) => u.searchParams.get("session") === first);
    await page.getByText("Continues in a later session").waitFor();
    assert.deepEqual(page.problems, []);
  });

  test("ten thousand steps are as quick as ten", async () => {
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "exit 0"] });
    await until("it has ended", async () => (await instance.api("GET", `/sessions/${s.id}`)).state === "exited");
    const all = Array.from({ length: 10_000 }, (_, i) => ({
      n: i + 1,
      off: -1,
      id: `i${i}`,
      at: Date.now() - 10_000_000 + 1000 * i,
      ...(i % 10 === 0
        ? { kind: "prompt", text: `Prompt ${i}` }
        : i % 3 === 0
          ? { kind: "text", text: `Step **${i}** says something of several words.\n\n- one\n- two` }
          : { kind: "tool", tool: "Bash", title: `make step-${i}`, input: `make step-${i}`, output: "ok\n".repeat(20), status: "ok" }),
    }));
    writeFileSync(join(instance.data, "sessions", s.id, "conversation.jsonl"), all.map((i) => `${JSON.stringify(i)}\n`).join(""));
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation&session=${s.id}`);
    await feed().getByText("make step-9998").waitFor();
    await page.getByText("10,000 steps").waitFor();
    assert.ok((await feed().getByRole("listitem").count()) < 80, "more rows exist than are on screen");
    // Scrolling up loads what is older, and what is read stays where it is.
    await feed().evaluate((el) => el.scrollTo(0, 300));
    await page.getByRole("button", { name: "Jump to latest" }).waitFor();
    await until("older steps are there", async () => (await feed().evaluate((el) => el.scrollTop)) > 2000);
    // A place far back opens by its address.
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation&session=${s.id}&place=4001`);
    await feed().locator("[aria-current=true]", { hasText: "Prompt 4000" }).waitFor();
    assert.ok((await feed().getByRole("listitem").count()) < 80, "more rows exist than are on screen");
    assert.deepEqual(page.problems, []);
  });

  test("light, with the terminal beside it, and on a phone", async () => {
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation`);
    await feed().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.getByRole("button", { name: "New session, shell or split" }).click();
    await page.getByRole("menuitem", { name: "Terminal beside the conversation" }).click();
    await page.locator(".xterm").waitFor();
    await page.reload();
    await page.locator(".xterm").waitFor(); // remembered
    await feed().waitFor();
    assert.deepEqual(await axe(page, [".xterm"]), []);
    await shot(page, "conversation-split-light");
    assert.deepEqual(page.problems, []);

    const phone = await newPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=conversation&session=${first}`);
    await phone.getByText("The very last word.", { exact: true }).waitFor();
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= 390), "the page is wider than the phone");
    assert.deepEqual(await axe(phone), []);
    await shot(phone, "conversation-phone");
    assert.deepEqual(phone.problems, []);
  });
});
