// The timeline of a workspace: states of the files are listed, compared, restored, pinned and named, by keyboard and mouse, on a phone too.
// Links to places, and the palette.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

describe("timeline", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let ws;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Keep every version");
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("a state is kept, compared and restored", async () => {
    const file = join(ws.path, "README.md");
    writeFileSync(file, "# Good\n");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=timeline`);
    await page.getByRole("button", { name: "Save snapshot" }).click();
    const kept = page.getByRole("listitem").filter({ hasText: "Saved manually" });
    await kept.waitFor();
    writeFileSync(file, "# Worse\n");
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await page.getByLabel("Every file change").check();
    await page.getByRole("listitem").filter({ hasText: "Files changed" }).first().waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility");

    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Restore…" }).click();
    const dialog = page.getByRole("dialog", { name: "Restore" });
    await dialog.getByText("README.md").waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility of the dialog");
    await dialog.getByRole("button", { name: "Restore" }).click();
    await page.getByText("1 file restored", { exact: true }).first().waitFor();
    assert.equal(readFileSync(file, "utf8"), "# Good\n");
    await page.getByRole("listitem").filter({ hasText: "Before a restore" }).waitFor();

    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Pin" }).click();
    await kept.getByText("pinned").waitFor();
    await kept.getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "What changed" }).click();
    await page.waitForURL(/tab=changes/);
    await page.getByText("README.md").first().waitFor();
    assert.deepEqual(page.problems, [], "problems");

    // The trash and the use of the disk have addresses of their own.
    await page.goto(`${instance.url}/${instance.team}/trash`);
    await page.waitForURL(/\/w\?show=trash/);
    await page.getByRole("link", { name: "Trash" }).waitFor();
    await page.goto(`${instance.url}/${instance.team}/settings/disk`);
    await page.getByText(/on disk, counted/).waitFor();
    await page.getByRole("heading", { name: "Terminal history" }).waitFor();
    assert.deepEqual(page.problems, [], "problems");

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=timeline`);
    await phone.getByRole("listitem").filter({ hasText: "Before a restore" }).waitFor();
    assert.deepEqual(await axe(phone), [], "accessibility on a phone");
    assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
    const open = await phone.getByRole("link", { name: "Timeline", exact: true }).boundingBox();
    assert.ok(open.x >= 0 && open.x + open.width <= 390, "the open view is in the strip of views");
    await shot(phone, "timeline-phone");
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=merge`);
    const what = await phone.getByRole("region", { name: "Branch and main" }).getByRole("definition").first().boundingBox();
    assert.ok(what.width > 200, "what the branch has is not squeezed by its name");
    assert.deepEqual(phone.problems, [], "problems on a phone");
  });

  test("a link opens at an entry, a line and a moment, after signing in too, and says what is gone; the palette finds by any word", async () => {
    writeFileSync(join(ws.path, "lines.txt"), Array.from({ length: 400 }, (_, i) => `row ${i + 1}\n`).join(""));
    await instance.api("POST", `/workspaces/${ws.id}/snapshots`, { title: "Linked" });
    const session = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo recorded"], cols: 80, rows: 24 });
    const page = await newPage(browser, { permissions: ["clipboard-read", "clipboard-write"] });
    await signIn(page, instance, password);
    const at = `${instance.url}/${instance.team}/w/${ws.key}`;
    const copied = () => page.evaluate(() => navigator.clipboard.readText());

    await page.goto(`${at}?tab=timeline`);
    await page.getByRole("listitem").filter({ hasText: "Linked" }).getByRole("button", { name: /Actions for/ }).click();
    await page.getByRole("menuitem", { name: "Copy link" }).click();
    await page.getByText("Copied the link").first().waitFor();
    const entry = await copied();
    const other = await newPage(browser);
    await other.goto(entry);
    await other.getByLabel(/e-?mail/i).fill("mika@example.com");
    await other.getByLabel(/password/i).fill(password);
    await other.getByRole("button", { name: /sign in/i }).click();
    await other.locator("li[aria-current=true]").filter({ hasText: "Linked" }).waitFor();
    await other.goto(entry.replace(/item=\w+/, "item=snp_0none"));
    await other.getByText("The linked entry is not there any more").first().waitFor();

    await other.goto(`${at}?tab=files&file=lines.txt&goto=300-302`);
    await other.locator(".cm-linked").filter({ hasText: "row 301" }).waitFor();
    assert.deepEqual(await axe(other, [".xterm"]), [], "accessibility of a linked line");
    await other.goto(`${at}?tab=files&file=lines.txt&goto=999-999`);
    await other.getByText("Line 999 is not there any more").first().waitFor();
    await other.goto(`${at}?tab=files&file=never.txt&goto=1-2`);
    await other.getByText("The linked file is not there any more").first().waitFor();
    await page.goto(`${at}?tab=files&file=lines.txt&goto=300-302`);
    await page.locator(".cm-linked").first().waitFor();
    await page.getByRole("button", { name: "Copy link to the line" }).click();
    await page.getByText("Copied the link to the line").first().waitFor();
    assert.match(await copied(), /tab=files&file=lines.txt&goto=300%3A1$/);

    await page.goto(`${at}?tab=changes&file=lines.txt&line=new300`);
    await page.getByRole("button", { name: "Copy link to the chosen lines" }).click();
    await page.getByText("Copied the link to the line").first().waitFor();
    const line = await copied();
    rmSync(join(ws.path, "lines.txt"));
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await other.goto(line);
    await other.getByText("row 300", { exact: true }).waitFor();
    await other.goto(`${at}?tab=changes&file=lines.txt&line=new300`);
    await other.getByText("The linked file is not among the changes").first().waitFor();

    await page.goto(`${at}?tab=history&session=${session.id}`);
    await page.locator("[data-replay]").getByText("recorded").waitFor();
    await page.getByRole("button", { name: "Copy link to this moment" }).click();
    await page.getByText("Copied the link").first().waitFor();
    await other.goto(await copied());
    await other.locator("[data-replay]").getByText("recorded").waitFor();
    await other.goto(`${at}?tab=history&session=ses_0none`);
    await other.getByText("The linked recording is not there any more").first().waitFor();

    // The palette finds files, workspaces, settings and actions by any word; what was chosen last comes first.
    await page.goto(`${at}?tab=changes`);
    await page.getByRole("link", { name: "Timeline", exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    const field = page.getByPlaceholder(/^A workspace, .*or command$/);
    for (const [typed, found] of [["readme", /README\.md/], ["version keep", /Keep every version/], ["search in files", /Search in files/], ["passkey", /Security/]]) {
      await field.fill(typed);
      await page.getByRole("option", { name: found }).first().waitFor();
    }
    await page.getByRole("option", { name: /Security/ }).first().click();
    await page.waitForURL(/settings\/security/);
    await page.keyboard.press("Control+k");
    await field.waitFor();
    assert.match(await page.getByRole("option").first().textContent(), /Security/, "the one chosen last is first");
    await field.fill("s");
    await page.getByRole("option", { name: /Security/ }).first().waitFor();
    assert.match(await page.getByRole("option").first().textContent(), /Security/, "and before others that fit as well");
    assert.deepEqual([page.problems, other.problems], [[], []], "problems");
  });
});
