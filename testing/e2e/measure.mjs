// What the first visit of a page costs: `make measure-ui`. Requests and bytes are the same on every machine; times are of this one.
// With --all each request is listed.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { haveChromium, launch, newPage, signIn } from "./lib/browser.mjs";
import { Instance, password, until } from "./lib/instance.mjs";
import { blocking, scrolling } from "./lib/pace.mjs";
import { BUDGETS, firstLoad, screens, started } from "./lib/wire.mjs";

if (!haveChromium) {
  console.error("Measuring needs Chromium. Run: make test-setup");
  process.exit(1);
}

const all = process.argv.includes("--all");
const kB = (n) => (n / 1000).toFixed(1);
const instance = await Instance.start();
const browser = await launch();
try {
  await instance.setUp();
  const { ws, session } = await started(instance);
  const first = await newPage(browser);
  await signIn(first, instance, password);
  const storageState = await first.context().storageState();
  await first.context().close();
  const as = (name) => (name === "sign-in" ? {} : { storageState });

  console.log("page      requests  kB of all  kB of scripts  API  blocked at 4x (longest task, first paint), ms");
  const quick = process.argv.includes("--bytes");
  for (const [name, screen] of Object.entries(screens(instance, ws, session))) {
    const page = await newPage(browser, as(name));
    const got = await firstLoad(page, screen.url, screen.ready);
    await page.context().close();
    const tries = [];
    for (let i = 0; i < (quick ? 1 : 3); i++) {
      const slow = await newPage(browser, as(name));
      tries.push(await blocking(slow, screen.url, screen.ready));
      await slow.context().close();
    }
    const pace = tries.sort((a, b) => a.blocked - b.blocked)[Math.floor(tries.length / 2)];
    const of = BUDGETS[name];
    console.log(`${name.padEnd(9)} ${`${got.requests} of ${of.requests}`.padStart(8)}  ${`${kB(got.bytes)} of ${of.kB}`.padStart(12)}  ${kB(got.script).padStart(10)}  ${String(got.api).padStart(4)}  ${pace.blocked} (${pace.longest}, ${pace.paint})`);
    if (all) for (const r of got.list) console.log(`  ${r.late ? "later" : "     "} ${r.kind.padEnd(6)} ${String(r.bytes).padStart(7)} ${r.path}`);
  }

  mkdirSync(join(ws.path, "many"), { recursive: true });
  const lines = (i) => Array.from({ length: 60 }, (_, n) => `export const line${n} = "file ${i}, line ${n}";`).join("\n");
  for (let i = 0; i < 200; i++) writeFileSync(join(ws.path, "many", `file${i}.ts`), lines(i));
  await until("the 200 files are known", async () => (await instance.api("GET", `/workspaces/${ws.id}/changes`)).items.length >= 200);
  const page = await newPage(browser, { storageState });
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes`);
  await page.getByText("many/file0.ts").first().waitFor();
  await page.waitForTimeout(1_000);
  const s = await scrolling(page, "[data-diff-rows], #side-pane");
  console.log(`scrolling 200 changed files: ${s.perSecond} frames a second; between frames ${s.median} ms (median), ${s.p95} (95 of 100), ${s.worst} (worst)`);
} finally {
  await browser.close();
  await instance.stop();
}
