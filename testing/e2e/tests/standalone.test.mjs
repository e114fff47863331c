// The page of sandboxes without a repository, and the public demo, which needs no login.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

// The demo runs only where limits are enforced: as root, and in CI, they are.
const limited = process.getuid() === 0 || process.env.CI === "true";

describe("sandboxes without a repository", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start({ demo: { enabled: true, executor: "bubblewrap", runsPerMinute: 3 } });
    await instance.setUp();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("one is made, used, extended and ended", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.getByRole("link", { name: "Workspaces" }).first().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("z");
    await page.getByText("No sandbox yet").waitFor();
    await page.getByRole("button", { name: "Create a sandbox" }).click();
    await page.getByLabel("Key").fill("numbers");
    assert.deepEqual(await axe(page, []), [], "accessibility of the dialog");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("list", { name: "Totals" }).getByText("Running code").waitFor();
    await page.getByRole("button", { name: "Open numbers" }).click();
    const dialog = page.getByRole("dialog", { name: "numbers" });
    await dialog.getByLabel("Language").selectOption("shell");
    await dialog.getByRole("textbox", { name: "Code" }).fill("mkdir -p made && echo hello > made/a.txt; cat made/a.txt");
    await dialog.getByRole("button", { name: "Run", exact: true }).click();
    await dialog.getByRole("region", { name: "Output" }).filter({ hasText: "hello" }).waitFor();
    await shot(page, "sandbox-open");
    await dialog.getByRole("button", { name: "Files" }).click();
    await dialog.getByRole("button", { name: "Open made" }).click();
    await dialog.getByRole("link", { name: "Download a.txt" }).waitFor();
    await dialog.getByRole("button", { name: "Ports" }).click();
    await dialog.getByText(/No open ports|preview/i).first().waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of an open sandbox");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Extend numbers by an hour" }).click();
    await page.getByText(/Ends in (1 h|60 min)/).waitFor();
    await shot(page, "sandboxes");

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/sandboxes`);
    await phone.getByRole("button", { name: "Open numbers" }).waitFor();
    assert.deepEqual(await axe(phone, []), [], "accessibility on a phone");
    await shot(phone, "sandboxes-phone");
    await phone.context().close();

    await page.getByRole("button", { name: "End numbers", exact: true }).click();
    await page.getByText("All its files, programs and variables are lost").waitFor();
    await page.getByRole("button", { name: "End it" }).click();
    await page.getByText("No sandbox yet").waitFor();
  });

  test("a visitor runs code without a login", { skip: !limited && "NOT TESTED: limits need root here" }, async () => {
    const page = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 } });
    await page.goto(`${instance.url}/demo`);
    const field = page.getByRole("textbox", { name: "Code" });
    const run = async (code) => {
      await field.fill(code);
      await page.getByRole("button", { name: "Run", exact: true }).click();
    };
    await page.getByText("no network").waitFor();
    await run(`
class Page:
    def _repr_html_(self): return "<h1>A page</h1><script>parent.document.title = 'taken'</script>"
x = 42
Page()`);
    await page.frameLocator('iframe[title="Made by the code"]').getByRole("heading", { name: "A page" }).waitFor();
    assert.notEqual(await page.title(), "taken", "a page that code made runs no script");
    await page.getByText(/min.* left/).waitFor();
    await page.reload(); // the cookie finds the sandbox again
    await page.getByText(/min.* left/).waitFor();
    await run("print('x is', x)");
    await page.getByText("x is 42", { exact: true }).waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the demo");
    await shot(page, "demo-phone");
    await run("x + 0.5");
    await page.getByText("42.5").waitFor();
    await run("1");
    await page.getByText("You have run code 3 times within a minute").waitFor();
    await page.getByRole("button", { name: "End the sandbox" }).click();
    await page.getByText(/min.* left/).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Sign in" }).first().click();
    await page.getByLabel("Password").waitFor();
  });
});
