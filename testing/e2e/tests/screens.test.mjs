// Every screen in both themes, wide and on a phone: no accessibility violation, no error, no CSP violation.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { composer } from "../lib/composer.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

describe("screens", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let fresh;
  let browser;
  let ws;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    fresh = await Instance.start();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Retry webhook delivery with jitter");
    writeFileSync(join(ws.path, "added.txt"), "one\ntwo\nthree\n");
    writeFileSync(join(ws.path, "README.md"), "# Changed\n\nAnother text.\n");
    await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "printf '\\033[32mgreen\\033[0m and plain\\n'; sleep 1000"], cols: 100, rows: 24 });
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    const other = await instance.newWorkspace(ws.project_id, "Put away");
    await instance.api("POST", `/workspaces/${other.id}/archive`);
    const gone = await instance.newWorkspace(ws.project_id, "Thrown away");
    await instance.api("DELETE", `/workspaces/${gone.id}`);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    await fresh?.stop();
  });

  const check = async (page, name) => {
    await shot(page, name);
    const found = await axe(page, [".xterm"]);
    assert.deepEqual(found, [], `${name}: accessibility`);
    assert.deepEqual(page.problems, [], `${name}: problems`);
  };

  for (const colorScheme of ["dark", "light"]) {
    for (const [size, viewport] of [
      ["wide", { width: 1440, height: 900 }],
      ["phone", { width: 390, height: 844 }],
    ]) {
      test(`${colorScheme}, ${size}`, async () => {
        const options = { colorScheme, viewport, hasTouch: size === "phone", isMobile: size === "phone", reducedMotion: "reduce" };
        const first = await newPage(browser, options);
        await first.goto(fresh.setupLink);
        await first.getByRole("button", { name: "Create and sign in" }).waitFor();
        await check(first, `setup-${colorScheme}-${size}`);
        await first.context().close();

        const page = await newPage(browser, options);
        await page.goto(`${instance.url}/login`);
        await page.getByRole("button", { name: "Sign in" }).waitFor();
        await check(page, `login-${colorScheme}-${size}`);
        await signIn(page, instance, password);

        const at = `${instance.url}/${instance.team}`;
        const screens = [
          ["inbox", `${at}/inbox`, () => page.getByRole("heading", { name: "Inbox" }).waitFor()],
          ["workspaces", `${at}/w`, () => page.getByText(ws.name).filter({ visible: true }).first().waitFor()],
          ["projects", `${at}/p`, () => page.getByRole("heading", { name: "Projects" }).waitFor()],
          ["project", `${at}/p/${ws.project_id}`, () => page.getByLabel(/setup script/i).waitFor()],
          ["add-project", `${at}/p?add=url`, () => page.getByRole("dialog").waitFor()],
          ["add-folder", `${at}/p?add=folder`, () => page.getByRole("dialog").waitFor()],
          ["new-workspace", `${at}/p?new=${ws.project_id}`, () => composer(page).chip("Where it runs: ").waitFor()],
          ["terminal", `${at}/w/${ws.key}?live=1`, () => page.locator("[data-link=live]").waitFor()],
          ["last-lines", `${at}/w/${ws.key}`, () => (size === "phone" ? page.getByText("green and plain") : page.locator("[data-link=live]")).waitFor()],
          ["changes", `${at}/w/${ws.key}?tab=changes`, () => page.getByText("added.txt").filter({ visible: true }).first().waitFor()],
          ["shell", `${at}/w/${ws.key}?tab=shell`, () => page.getByRole("button", { name: "Open a shell" }).waitFor()],
          ["activity", `${at}/w/${ws.key}?tab=activity`, () => page.getByText(/created/i).first().waitFor()],
          ["merge", `${at}/w/${ws.key}?tab=merge`, () => page.getByRole("group", { name: "Preview" }).waitFor()],
          ["delete", `${at}/w/${ws.key}?dialog=delete`, () => page.getByRole("dialog").waitFor()],
          ["archived", `${at}/w/PW-2`, () => page.getByRole("button", { name: /restore/i }).first().waitFor()],
          ["machines", `${at}/machines`, () => page.getByRole("link", { name: /Connect a machine/ }).waitFor()],
          ["connect-machine", `${at}/machines?connect=1`, () => page.getByRole("dialog").waitFor()],
          ["settings", `${at}/settings`, () => page.getByRole("heading").first().waitFor()],
          ["notifications", `${at}/settings/notifications`, () => page.getByRole("heading", { name: "In this browser" }).waitFor()],
          // Half of the combinations tell as much as all of them.
          ...((colorScheme === "dark") === (size === "phone")
            ? [
                ["trash", `${at}/w?show=trash`, () => page.getByRole("button", { name: "Delete permanently: Thrown away" }).waitFor()],
                ["disk", `${at}/settings/disk`, () => page.getByText(/on disk, counted/).waitFor()],
              ]
            : []),
          ["docs", `${instance.url}/api/docs`, () => page.getByRole("heading").first().waitFor()],
        ];
        for (const [name, url, seen] of screens) {
          await page.goto(url);
          await seen();
          await until(`${name} has settled`, async () => (await page.locator("[aria-busy=true]").count()) === 0);
          await check(page, `${name}-${colorScheme}-${size}`);
        }
        await page.context().close();
      });
    }
  }
});
