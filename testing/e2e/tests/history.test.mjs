// What a session printed: found from the terminal's find bar, played from there, played by keys, saved as a file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

let instance;
let browser;
let ws;
let first;
let second;
const skip = !haveChromium && "Chromium is not installed";

before(async () => {
  if (!haveChromium) return;
  instance = await Instance.start();
  await instance.setUp();
  browser = await launch(["--disable-3d-apis"]);
  ws = await instance.workspace("History");
  const start = (script) =>
    instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", script], cols: 90, rows: 20 });
  // Colours in the middle of a word, a long pause, a question to the terminal, a wish for the clipboard.
  first = await start(
    `echo begin; seq -f 'row %.0f' 1 300; printf 'the \\033[31mneed\\033[0mle is here\\n'; printf '\\033[6n\\033]52;c;aGlkZGVu\\007\\007'; sleep 2.5; seq -f 'later %.0f' 1 200; printf 'written' > made.txt; sleep 2.2; echo the end`,
  );
  second = await start(`echo another needle; read x`);
  await until("the first has ended", async () => (await instance.api("GET", `/sessions/${first.id}`)).state === "exited");
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

const rows = (page) => page.locator("[data-replay] .xterm-rows").innerText();
const shows = (page, text) => until(`the replay shows ${text}`, async () => (await rows(page)).includes(text));

test("a search over the whole history leads to the moment", { skip }, async () => {
  const page = await newPage(browser);
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?session=${second.id}`);
  await page.locator("[data-link=live]").waitFor();
  await page.locator("[data-terminal] textarea").focus();
  await page.keyboard.press("Control+f");
  await page.getByLabel("Find in the terminal").fill("needle");
  await page.getByRole("button", { name: /Search the output of all sessions/ }).click();
  const results = page.getByRole("list", { name: "Results" }).getByRole("link");
  await until("two lines are found", async () => (await results.count()) === 2);
  assert.match(await results.nth(0).innerText(), /another needle|needle is here/);
  await results.filter({ hasText: "needle is here" }).click();
  await shows(page, "needle is here");
  assert.ok(!(await rows(page)).includes("later 200"), "the replay shows what came later");
  assert.deepEqual(await axe(page, [".xterm"]), []);
  await shot(page, "history-search");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a replay plays, skips silences and seeks where it should", { skip }, async () => {
  const page = await newPage(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}`);
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  const asked = [];
  page.on("request", (r) => r.method() !== "GET" && asked.push(`${r.method()} ${r.url()}`));
  page.on("websocket", (w) => /terminal/.test(w.url()) && asked.push(w.url()));
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  await page.getByRole("link", { name: "History", exact: true }).click();
  asked.length = 0;
  await page.getByRole("list", { name: "Sessions" }).getByRole("link").last().click();
  await page.getByRole("button", { name: "Play" }).waitFor();
  const player = page.getByRole("region", { name: /^Replay of/ });
  await player.focus();
  await page.keyboard.press("Home");
  const began = Date.now();
  await page.keyboard.press(" ");
  await shows(page, "the end");
  assert.ok(Date.now() - began < 4000, `it took ${Date.now() - began} ms: the pauses of 4.7 s were not skipped`);
  await page.getByRole("button", { name: "Play" }).waitFor(); // it stopped at the end
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");
  assert.deepEqual(asked.filter((a) => !a.includes("/api/v1/batch")), [], "a replay asks for nothing but to read");

  await page.keyboard.press("Home");
  await until("it is at the beginning", async () => !(await rows(page)).includes("the end"));
  const moments = page.getByRole("list", { name: "Moments of the session" });
  await moments.getByText("made.txt").click();
  await shows(page, "later 200");
  assert.ok(!(await rows(page)).includes("the end"));
  await page.getByLabel("Speed").selectOption("16");
  assert.deepEqual(await axe(page, [".xterm"]), []);
  await shot(page, "history-replay");

  await page.getByRole("button", { name: "Export" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: /Asciicast/ }).click();
  const file = await download;
  assert.match(file.suggestedFilename(), /\.cast$/);
  const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
  assert.equal(JSON.parse(lines[0]).width, 90);
  assert.ok(lines.slice(1).map((l) => JSON.parse(l)[2]).join("").includes("later 200"));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("on a phone the list and the player take turns", { skip }, async () => {
  const page = await newPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=history&q=needle`);
  await page.getByRole("list", { name: "Results" }).getByRole("link").filter({ hasText: "needle is here" }).click();
  await shows(page, "needle is here");
  await shot(page, "history-phone");
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "the page is wider than the phone");
  assert.deepEqual(await axe(page, [".xterm"]), []);
  await page.getByRole("link", { name: "Back to the list" }).click();
  await page.getByRole("list", { name: "Results" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
