// A reload and a killed server in the middle of a burst: the page has every byte, once.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { haveChromium, launch, newPage, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";
import { received, recordTerminals } from "../lib/recorder.mjs";

let instance;
let browser;
before(async () => {
  if (!haveChromium) return;
  instance = await Instance.start();
  await instance.setUp();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

const program = `read x; i=0; while [ $i -lt 60 ]; do seq -f "burst $i.%.0f of many" 1 2000; sleep 0.1; i=$((i+1)); done; echo END`;

function expected(typed) {
  const h = createHash("sha256");
  let n = 0;
  const add = (s) => {
    h.update(s);
    n += s.length;
  };
  add(typed);
  for (let i = 0; i < 60; i++) for (let j = 1; j <= 2000; j++) add(`burst ${i}.${j} of many\r\n`);
  add("END\r\n");
  return { sha256: h.digest("hex"), end: n };
}

test("reload and kill -9 in mid-burst", { skip: !haveChromium && "Chromium is not installed" }, async () => {
  const ws = await instance.workspace("Burst");
  const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", program], cols: 120, rows: 32 });
  const page = await newPage(browser);
  await recordTerminals(page.context());
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?session=${s.id}`);
  await until("the terminal is live", async () => (await page.locator("[data-link=live]").count()) > 0);
  await instance.api("POST", `/sessions/${s.id}/input`, { text: "\r" });

  await until("some of the burst came", async () => (await received(page, s.id))?.end > 200_000);
  let asked = 0;
  page.on("request", (r) => {
    if (new URL(r.url()).pathname === "/api/v1/health") asked++;
  });
  await instance.kill();
  await page.getByText("Reconnecting").first().waitFor();
  await until("the page asks whether the server is back", async () => asked > 0);
  // A part of the page that is wanted while the server is away is waited for: the page does not load itself anew into nothing.
  const part = page.waitForEvent("requestfailed", (r) => /\/assets\//.test(r.url()));
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  await part;
  await instance.boot();
  await page.getByRole("link", { name: "History", exact: true }).click();
  await page.getByRole("searchbox").waitFor();
  await page.getByRole("link", { name: "Terminal", exact: true }).click();
  // On a fast machine much of the burst may have come before the kill.
  await until("it connected again, and more came", async () => {
    const mid = await received(page, s.id);
    return mid.sockets > 1 && mid.end > 900_000;
  });
  assert.deepEqual((await received(page, s.id)).gaps, []);

  const want = expected("\r\n");
  await until("the end came", async () => (await received(page, s.id)).end === want.end);
  const got = await received(page, s.id);
  assert.equal(got.start, 0);
  assert.deepEqual(got.gaps, []);
  assert.equal(got.sha256, want.sha256, "the page's bytes are the program's bytes");

  await page.reload();
  await until("the screen is there", async () => (await received(page, s.id))?.snapshot === want.end);
  assert.ok((await received(page, s.id)).received < 1 << 20, "the screen, not the whole output");
  await until("the last line is on the screen", async () => /END/.test(await page.locator(".xterm").first().innerText()) || (await page.locator(".xterm canvas").count()) > 0);
  assert.deepEqual(page.problems, []);
});
