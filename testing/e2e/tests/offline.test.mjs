// A page opened without a connection, and a page that the server has a newer version of.
import assert from "node:assert/strict";
import { copyFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, signIn } from "../lib/browser.mjs";
import { Instance, password, root, until } from "../lib/instance.mjs";

describe("without a connection", { skip: !haveChromium && "Chromium is not installed" }, () => {
  const dir = mkdtempSync(join(tmpdir(), "parawork-web-"));
  let instance;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    cpSync(join(root, "ui/dist"), dir, { recursive: true, filter: (f) => !/\.(br|gz)$/.test(f) });
    instance = await Instance.start({ ui: { dir } });
    await instance.setUp();
    await instance.workspace("Fix the harbour lights");
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  test("the page opens, says so and names the workspaces; after signing out it names none", async () => {
    const page = await newPage(browser, { serviceWorkers: "allow" });
    await signIn(page, instance, password);
    const list = `${instance.url}/${instance.team}/w`;
    await page.goto(list);
    await page.getByText("Fix the harbour lights").first().waitFor();
    await page.mouse.move(300, 300);
    const kept = () =>
      page.evaluate(
        () =>
          new Promise((done) => {
            const opened = indexedDB.open("parawork");
            opened.onsuccess = () => {
              const db = opened.result;
              const all = db.objectStoreNames.contains("known") ? db.transaction("known").objectStore("known").getAll() : undefined;
              if (all) all.onsuccess = () => done(JSON.stringify(all.result));
              else done("");
              db.close();
            };
          }),
      );
    await page.evaluate(async () => void (await navigator.serviceWorker.ready));
    await until("the names are kept", async () => (await kept()).includes("harbour lights"));

    await instance.kill();
    await page.goto(list);
    await page.getByRole("heading", { name: /^No connection/ }).waitFor();
    await page.getByRole("link", { name: "Fix the harbour lights" }).waitFor();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await axe(page), []);
    }
    const stored = await page.evaluate(async () => {
      const paths = [];
      for (const name of await caches.keys()) for (const r of await (await caches.open(name)).keys()) paths.push(new URL(r.url).pathname);
      return paths;
    });
    assert.ok(stored.length > 5 && !stored.some((p) => p.startsWith("/api")), stored.join(" "));

    await instance.boot();
    await page.getByRole("heading", { name: "Workspaces" }).first().waitFor(); // by itself
    await page.getByRole("button", { name: /your account/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    await until("the names are gone", async () => (await kept()) === "[]");
    assert.deepEqual(page.problems.filter((p) => !/ApiError: The server cannot be reached/.test(p)), []); // as React notes it
    await page.context().close();
  });

  test("an open page offers the new version, keeps what was written, and says when a part of its own is gone", async () => {
    const page = await newPage(browser, { serviceWorkers: "allow" });
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w?new=1`);
    const prompt = page.getByRole("dialog").getByRole("textbox").first();
    await prompt.fill("Paint the harbour wall");

    await instance.kill();
    const index = join(dir, "index.html");
    const html = readFileSync(index, "utf8");
    const entry = html.match(/assets\/(index-[^"]+\.js)/)[1];
    copyFileSync(join(dir, "assets", entry), join(dir, "assets", "index-newer.js"));
    writeFileSync(index, html.replaceAll(entry, "index-newer.js"));
    for (const f of readdirSync(join(dir, "assets"))) if (/^tasks-screen-/.test(f)) rmSync(join(dir, "assets", f));
    await instance.boot();
    const reload = page.getByRole("button", { name: "Reload for the new version" });
    await page.getByText("The server has a new version of this page.").waitFor(); // while a dialog is open, beside it
    assert.equal(await prompt.inputValue(), "Paint the harbour wall");

    await page.keyboard.press("Escape");
    await reload.waitFor();
    await page.getByRole("button", { name: "Later" }).click();
    await reload.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Tasks" }).first().click();
    await page.getByText(/older version, and a part that you opened/).waitFor();
    assert.deepEqual(await axe(page), []);
    assert.equal(await page.locator("script[type=module][src]").first().getAttribute("src"), `/assets/${entry}`);
    await reload.click();
    await page.locator('script[src="/assets/index-newer.js"]').waitFor({ state: "attached" });
    await page.context().close();
  });
});
