// What the first visit of a page asks of the server stays within its budget: see docs/performance.md.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { haveChromium, launch, newPage, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";
import { BUDGETS, firstLoad, screens, started } from "../lib/wire.mjs";

const skip = !haveChromium && "Chromium is not installed";

describe("first loads", { skip }, () => {
  let instance;
  let browser;
  let storageState;
  let all;
  before(async () => {
    if (skip) return;
    instance = await Instance.start();
    await instance.setUp();
    const { ws, session } = await started(instance);
    all = screens(instance, ws, session);
    browser = await launch();
    const page = await newPage(browser);
    await signIn(page, instance, password);
    storageState = await page.context().storageState();
    await page.context().close();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  for (const [name, budget] of Object.entries(BUDGETS))
    test(`${name}: at most ${budget.kB} kB in ${budget.requests} requests`, async () => {
      const page = await newPage(browser, name === "sign-in" ? {} : { storageState });
      const got = await firstLoad(page, all[name].url, all[name].ready, { quiet: 1_000 });
      const listed = got.list.map((r) => `${r.kind} ${r.bytes} ${r.path}`).join("\n");
      assert.ok(got.bytes <= budget.kB * 1000, `${(got.bytes / 1000).toFixed(1)} kB\n${listed}`);
      assert.ok(got.requests <= budget.requests, `${got.requests} requests\n${listed}`);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
});
