// The Code tab of a workspace: code runs, its figures and pages are shown, and it can be interrupted.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

// The smallest picture: one transparent pixel.
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

describe("code", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let ws;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Look at numbers");
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("code runs, shows what it made, and is interrupted", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=code`);
    const field = page.getByRole("textbox", { name: "Code" });
    const run = async (code) => {
      await field.fill(code);
      await field.press("Shift+Enter");
    };
    await page.getByText("Nothing ran yet").waitFor();
    await page.getByLabel("Language").selectOption("python");
    await run("x = 20\nx + 22");
    await page.getByRole("region", { name: "Output" }).filter({ hasText: "42" }).waitFor();
    await run(`
import base64
class Picture:
    def _repr_png_(self): return base64.b64decode("${PIXEL}")
Picture()`);
    const picture = page.getByRole("img", { name: "Made by the code" });
    await picture.waitFor();
    assert.equal(await picture.evaluate((i) => i.naturalWidth), 1, "the picture is drawn");
    await run(`
class Page:
    def _repr_html_(self): return "<h1>A page</h1><script>parent.document.title = 'taken'</script>"
Page()`);
    await page.frameLocator('iframe[title="Made by the code"]').getByRole("heading", { name: "A page" }).waitFor();
    assert.notEqual(await page.title(), "taken", "a page that code made runs no script");
    await run("1/0");
    await page.getByText("ZeroDivisionError").first().waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility");
    await run("while True: pass");
    await page.getByRole("button", { name: "Interrupt" }).click();
    await page.getByText("Interrupted.").waitFor();
    await run("print('x is still', x)");
    await page.getByText("x is still 20", { exact: true }).waitFor();
    await shot(page, "code");

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=code`);
    await phone.getByText("x is still 20", { exact: true }).waitFor();
    assert.deepEqual(await axe(phone, []), [], "accessibility on a phone");
    await shot(phone, "code-phone");
  });
});
