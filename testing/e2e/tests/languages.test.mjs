// What language servers say in the file editor: a mistake is underlined, hovering shows a type, and F12 goes to a definition.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

const servers = join(import.meta.dirname, "../../../.cache/language-servers/bin");
const missing = !haveChromium ? "Chromium is not installed" : !existsSync(join(servers, "gopls")) && "gopls is not installed: run testing/scripts/test-setup.sh";

describe("languages", { skip: missing }, () => {
  let instance;
  let browser;
  let ws;
  const path = process.env.PATH;
  before(async () => {
    if (missing) return;
    process.env.PATH = servers + delimiter + path;
    browser = await launch();
    instance = await Instance.start({ sandboxing: { defaultProvider: "local" } }); // where gopls is
    await instance.setUp();
    ws = await instance.workspace("Greet");
    for (const [name, text] of Object.entries({
      "go.mod": "module example.com/greeter\n\ngo 1.21\n",
      "main.go": "package main\n\nfunc main() {\n\tprintln(Greet(5))\n}\n",
      "greet.go": 'package main\n\n// Greet greets somebody.\nfunc Greet(name string) string { return "hello " + name }\n',
    }))
      writeFileSync(join(ws.path, name), text);
  });
  after(async () => {
    process.env.PATH = path;
    await browser?.close();
    await instance?.stop();
  });

  test("a mistake is underlined, a type is shown, and a definition is opened", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}/edit?path=main.go`);
    const wrong = page.locator(".cm-problem-error");
    await wrong.waitFor();
    assert.equal(await wrong.textContent(), "5");
    await wrong.hover();
    await page.locator(".cm-about").filter({ hasText: "error: cannot use 5" }).waitFor();
    const call = await page.locator(".cm-line", { hasText: "println" }).evaluate((dom) => {
      const walk = document.createTreeWalker(dom, NodeFilter.SHOW_TEXT);
      for (let n = walk.nextNode(); n; n = walk.nextNode()) {
        const at = n.data.indexOf("Greet");
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(n, at);
        range.setEnd(n, at + 5);
        const r = range.getBoundingClientRect();
        return { x: r.x + r.width / 2, y: r.y + r.height / 2 };
      }
      throw new Error("the call is not shown");
    });
    await page.mouse.move(0, 0);
    await page.locator(".cm-about").waitFor({ state: "detached" });
    await page.mouse.move(call.x, call.y, { steps: 3 });
    await page.locator(".cm-about").filter({ hasText: "func Greet(name string) string" }).waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility");
    await shot(page, "languages");
    await page.mouse.click(call.x, call.y);
    await page.keyboard.press("F12");
    const there = page.getByRole("textbox", { name: "Text of greet.go" });
    await there.waitFor();
    await there.getByText("Greet greets somebody").waitFor();
    assert.equal(await page.evaluate(() => document.getSelection().anchorNode?.parentElement.closest(".cm-line")?.textContent), 'func Greet(name string) string { return "hello " + name }');
    await page.locator(".cm-problem").waitFor({ state: "detached" });

    await instance.kill(); // gopls goes on, and is found again
    await instance.boot();
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}/edit?path=main.go`);
    await wrong.waitFor();
  });
});
