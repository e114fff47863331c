// Coming back to a terminal: after a reload, on another device and after a kill of the server the screen is what it was.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";
import { received, recordTerminals } from "../lib/recorder.mjs";

const haveVim = ["/usr/bin/vim", "/usr/local/bin/vim"].some(existsSync);

let instance;
let browser;
let ws;
before(async () => {
  if (!haveChromium) return;
  instance = await Instance.start();
  await instance.setUp();
  ws = await instance.workspace("Come back");
  browser = await launch(["--disable-3d-apis"]);
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

/** The screen as drawn: each run of each row with what it looks like. */
const drawn = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll(".xterm-rows > div")].map((row) =>
      [...row.querySelectorAll("span")]
        .map((s) => {
          const look = getComputedStyle(s);
          return [s.textContent, look.color, look.backgroundColor, look.fontWeight, look.textDecorationLine, look.fontStyle].join("|");
        })
        .filter((s) => !/^ *\|/.test(s)),
    ),
  );

async function open(context, s) {
  const page = await newPage(browser, context);
  await recordTerminals(page.context());
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?session=${s.id}`);
  await until("the screen came", async () => (await received(page, s.id))?.snapshot !== undefined);
  return page;
}

/** Waits until the page has read what the session has printed. */
async function settled(page, s) {
  await until("the page is up to date", async () => {
    const now = (await instance.api("GET", `/sessions/${s.id}`)).bytes;
    const got = await received(page, s.id);
    return now > 0 && got !== undefined && Math.max(got.end ?? 0, got.snapshot ?? 0) === now;
  });
  await until("the page shows what the server says is on the screen", async () => {
    const { rows, text } = await both(page, s);
    return rows.length > 0 && rows.join("\n") === text.join("\n");
  }).catch(async () => {
    const { rows, text } = await both(page, s);
    assert.deepEqual(rows, text);
  });
}

const start = (argv) => instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv, cols: 120, rows: 32 });

/** The rows of the screen as the browser shows them, and as the server says. */
async function both(page, s) {
  const rows = await page.evaluate(() => [...document.querySelectorAll(".xterm-rows > div")].map((r) => r.textContent.replace(/\u00a0/g, " ").trimEnd()));
  const text = (await instance.api("GET", `/sessions/${s.id}/screen`)).lines;
  return { rows, text: text.slice(0, rows.length) };
}

for (const dpr of [1, 2])
  test(`reload in the middle of vim, device pixel ratio ${dpr}`, { skip: (!haveChromium && "Chromium is not installed") || (!haveVim && "vim is not installed") }, async () => {
    writeFileSync(join(ws.path, "a.c"), Array.from({ length: 200 }, (_, i) => `int line_${i} = ${i}; /* 世界 ${"x".repeat(i % 90)} */`).join("\n"));
    const s = await start(["vim", "-u", "NONE", "-n", "-c", "set nocp nu cul", "-c", "syntax on", "a.c"]);
    const page = await open({ deviceScaleFactor: dpr }, s);
    // The first screen at a terminal gives it its size, which vim answers with another picture.
    await until("the page's size is the terminal's", async () => (await instance.api("GET", `/sessions/${s.id}`)).cols !== 120);
    await settled(page, s);
    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.type("50Gzzo inserted line");
    await until("vim shows what was typed", async () => (await instance.api("GET", `/sessions/${s.id}/screen`)).lines.some((l) => l.includes("inserted line"))).catch(async (e) => {
      await shot(page, "vim-typed");
      assert.fail(`${e.message}: ${JSON.stringify((await instance.api("GET", `/sessions/${s.id}/screen`)).lines)}`);
    });
    await settled(page, s);
    const before = await drawn(page);
    await page.reload();
    await settled(page, s);
    assert.deepEqual(await drawn(page), before);
    assert.equal((await received(page, s.id)).end, null, "nothing but the screen was sent");
    await instance.kill();
    await page.getByText("Reconnecting").first().waitFor();
    await page.keyboard.type("lost keys");
    await instance.boot();
    await until("the terminal is live", async () => (await page.locator("[data-link=live]").count()) > 0);
    await page.locator(".xterm-helper-textarea").first().focus();
    await page.keyboard.type("!");
    await until("vim goes on", async () => (await instance.api("GET", `/sessions/${s.id}/screen`)).lines.some((l) => l.includes("inserted line!")));
    await settled(page, s);
    const other = await open({ deviceScaleFactor: dpr, viewport: { width: 1440, height: 900 } }, s);
    await settled(other, s);
    if (dpr === 1) await shot(page, "vim-again");
    assert.deepEqual(page.problems, []);
    await other.context().close();
    await page.context().close();
    await instance.api("POST", `/sessions/${s.id}/stop`, {});
  });

test("reload in the middle of a coloured burst", { skip: !haveChromium && "Chromium is not installed" }, async () => {
  const program = `read x; i=0; while [ $i -lt 40000 ]; do printf '\\033[3%dm%d \\033[1;4%dmcoloured\\033[m 世界 %d\\r\\n' $((i%8)) $i $((i%7)) $i; i=$((i+1)); done; printf '\\033[33mEND\\033[m'; sleep 1000`;
  const s = await start(["sh", "-c", `${"printf ready; "}${program}`]);
  const whole = await open({}, s); // is there from the beginning
  const page = await open({}, s);
  await instance.api("POST", `/sessions/${s.id}/input`, { text: "\r" });
  await until("some of the burst came", async () => (await received(page, s.id)).end > 100_000);
  await page.reload();
  const small = await open({ viewport: { width: 800, height: 500 } }, s); // sees the same columns, in smaller letters
  const END = async () => (await instance.api("GET", `/sessions/${s.id}/screen?tail=1`)).tail[0] === "END";
  await until("the burst is over", END);
  await settled(page, s);
  await settled(whole, s);
  await settled(small, s);
  assert.deepEqual((await received(page, s.id)).gaps, []);
  assert.deepEqual(await drawn(page), await drawn(whole));

  // Everything that scrolled off is there, also what the page never read.
  await page.getByRole("button", { name: "Older output" }).click();
  const older = page.getByRole("region", { name: "Older output" });
  await older.getByText("39900 coloured 世界 39900", { exact: true }).or(older.getByText(/coloured/).last()).first().waitFor();
  await until("the beginning is reached", async () => {
    await older.evaluate((el) => el.scrollTo(0, 0));
    return (await page.getByText("everything since the beginning").count()) > 0;
  });
  let first = "";
  await until("the first line is shown", async () => {
    await older.evaluate((el) => el.scrollTo(0, 0));
    first = await older.locator("div.absolute").first().innerText();
    return first === "ready"; // and a new line, from the key that began the burst
  }).catch((e) => assert.fail(`${e.message}, but ${first}`));
  await shot(page, "older-output");
  assert.deepEqual([...page.problems, ...whole.problems, ...small.problems], []);
  await instance.api("POST", `/sessions/${s.id}/stop`, {});
});
