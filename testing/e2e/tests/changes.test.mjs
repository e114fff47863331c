// Reading changes in a real browser: the tree, the lines, the keys, what is folded, finding, links, and what stays still meanwhile.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

// One red point.
const RED = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==",
  "base64",
);

describe("changes", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let page;
  let ws;
  let merged;
  const at = (search = "") => `${instance.url}/${instance.team}/w/${ws.key}?tab=changes${search}`;
  const diff = () => page.getByRole("region", { name: "Diff" });
  const row = (name) => page.getByRole("treeitem", { name });
  const chosen = () => new URL(page.url()).searchParams;
  const write = (name, text) => {
    mkdirSync(join(ws.path, name, ".."), { recursive: true });
    writeFileSync(join(ws.path, name), text);
  };
  const lines = (n, of = (i) => `line ${i}`) => `${Array.from({ length: n }, (_, i) => of(i + 1)).join("\n")}\n`;

  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    ws = await instance.workspace("Read me");
    // What the base of the second workspace has: merged from the first.
    write(
      "src/app/long.ts",
      lines(120, (i) => `export const value${i} = ${i};`),
    );
    write("src/gone.ts", lines(5));
    write("logo.png", RED);
    execFileSync("git", ["-C", ws.path, "add", "-A"]);
    execFileSync("git", [
      "-C",
      ws.path,
      "-c",
      "user.name=Mika",
      "-c",
      "user.email=mika@example.com",
      "commit",
      "-qm",
      "Begin",
    ]);
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    await instance.api("POST", `/workspaces/${ws.id}/merge`, { strategy: "merge" });
    merged = ws;
    ws = await instance.newWorkspace(ws.project_id, "Read this");
    write(
      "src/app/long.ts",
      lines(120, (i) =>
        i === 60
          ? "export const value60 = compute(60);"
          : i > 100 && i < 104
            ? `\texport const value${i} = ${i};`
            : `export const value${i} = ${i};`,
      ),
    );
    rmSync(join(ws.path, "src/gone.ts"));
    write("logo.png", Buffer.concat([RED, Buffer.from([0])]));
    write(
      "package-lock.json",
      lines(10, (i) => `"needle-in-lock-${i}"`),
    );
    write("huge.txt", lines(900));
    write("wide.txt", `${"w".repeat(2500)}\n`);
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(at());
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("files as a tree, lines with words marked, the rest folded with why", async () => {
    await row(/long\.ts/).waitFor();
    await row(/^src/).waitFor();
    assert.equal(await page.getByRole("treeitem").count(), 8); // src and src/app among them
    await until("the changed word is marked", async () =>
      (await diff().locator(".word-add").allTextContents()).join("").includes("compute("),
    );
    await diff().getByText("900 changed lines.").waitFor();
    await diff().getByText("A lock file, written by a tool.").waitFor();
    await row(/gone\.ts/).click();
    await diff().getByText("The file was deleted, 5 lines.").waitFor();
    await row(/wide\.txt/).click();
    await diff().getByRole("button", { name: "Show 500 more characters" }).waitFor();
    await row(/logo\.png/).click();
    await diff().getByRole("img", { name: "logo.png, before" }).waitFor();
    await diff().getByRole("img", { name: "logo.png, after" }).waitFor();
    await page.getByLabel("Filter the files").fill("huge");
    await until("the tree is filtered", async () => (await page.getByRole("treeitem").count()) === 1);
    await page.getByLabel("Filter the files").fill("");
  });

  test("keys walk, fold, mark, split, hide white space and open what is hidden", async () => {
    await page.goto(at("&file=src/app/long.ts"));
    await diff().getByText("compute(60)").waitFor();
    await diff().focus();
    await page.keyboard.press("j");
    await page.locator('[role="status"]', { hasText: /^(Old line|Line) 60$/ }).waitFor({ state: "attached" });
    await page.keyboard.press("j");
    await page.locator('[role="status"]', { hasText: /^(Old line|Line) 101$/ }).waitFor({ state: "attached" });
    await page.keyboard.press("k");
    await page.locator('[role="status"]', { hasText: /^(Old line|Line) 60$/ }).waitFor({ state: "attached" });
    await page.keyboard.press("w");
    await until(
      "changes of white space are hidden",
      async () => (await page.locator(".diff-line", { hasText: "value102 " }).count()) === 0,
    );
    await page.keyboard.press("w");
    await until(
      "and shown again",
      async () => (await page.locator(".diff-line", { hasText: "value102 " }).count()) === 2,
    );
    await page.keyboard.press("s");
    await until("side by side", async () => (await page.locator("[data-side=old]").count()) > 0);
    await page.keyboard.press("s");
    await until("one column", async () => (await page.locator("[data-side=old]").count()) === 0);
    await diff().getByRole("button", { name: "56 unchanged lines" }).first().click();
    await diff().getByText("value30 = 30").waitFor();
    await diff().focus();
    await page.keyboard.press("v");
    await page.getByText("1 of 6 viewed").waitFor();
    await until("the server knows", async () =>
      (await instance.api("GET", `/workspaces/${ws.id}/compare`)).files.some(
        (f) => f.path === "src/app/long.ts" && f.viewed,
      ),
    );
    await page.keyboard.press("v");
    await until("the mark is off", async () => (await page.getByText("1 of 6 viewed").count()) === 0);
  });

  test("finds text in folded files, and a link leads to the same lines later", async () => {
    await page.keyboard.press("/");
    await page.getByLabel("Find in the changes", { exact: true }).fill("NEEDLE-in-lock-7");
    await page.getByText("1 of 1", { exact: true }).waitFor();
    await diff().getByText('"needle-in-lock-7"').waitFor();
    await page.keyboard.press("Escape");
    await row(/long\.ts/).click();
    await diff().getByText("compute(60)").waitFor();
    const number = page.locator(".diff-number", { hasText: /^60$/ }).last();
    await number.click();
    await until("the line is in the address", () => chosen().get("line") === "new60");
    await page
      .locator(".diff-number", { hasText: /^62$/ })
      .last()
      .click({ modifiers: ["Shift"] });
    await until("the lines are in the address", () => chosen().get("line") === "new60-62");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: instance.url });
    await page.keyboard.press("y");
    await page.keyboard.press("l");
    await page.getByText("Copied the link to the line").first().waitFor(); // it is read out, too
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const long = join(ws.path, "src/app/long.ts");
    writeFileSync(long, readFileSync(long, "utf8").replace("compute(60)", "something else"));
    await instance.api("POST", `/workspaces/${ws.id}/sync`);
    // The page held still and tells.
    await page.getByRole("button", { name: /1 newer change, refresh/ }).waitFor();
    assert.equal(await diff().getByText("compute(60)").count(), 1);
    await diff().focus();
    await page.keyboard.press("r");
    await diff().getByText("something else").waitFor();
    await page.goto(link);
    await diff().getByText("compute(60)").waitFor();
    assert.equal(await page.locator(".diff-chosen").count(), 3);
    await page.getByRole("button", { name: /1 newer change, refresh/ }).click();
    await diff().getByText("something else").waitFor();
  });

  test("compares other states", async () => {
    await instance.api("POST", `/workspaces/${ws.id}/commit`, { message: "Wide lines", paths: ["wide.txt"] });
    await page.goto(at());
    await page.getByRole("button", { name: /^Compare:/ }).click();
    await page.getByRole("menuitem", { name: "Wide lines" }).click();
    await until("the one file of the commit", async () => (await page.getByRole("treeitem").count()) === 1);
    await row(/wide\.txt/).waitFor();
    await page.getByRole("button", { name: /^Compare:/ }).click();
    await page.getByRole("menuitem", { name: "Not committed yet" }).click();
    await until("the others", async () => (await page.getByRole("treeitem").count()) === 7);
    assert.equal(await row(/wide\.txt/).count(), 0);
    assert.equal(await page.getByRole("button", { name: "Stage the file" }).count(), 0);

    // Any two states, by keyboard: a snapshot with a commit.
    const kept = await instance.api("POST", `/workspaces/${ws.id}/snapshots`, { title: "Half way" });
    await diff().press("d");
    const dialog = page.getByRole("dialog", { name: "Compare two states" });
    await dialog.getByRole("combobox", { name: "From" }).press("Enter");
    await page.getByRole("combobox", { name: "Find: From" }).fill("half way");
    await page.getByRole("option", { name: /Half way/ }).waitFor();
    assert.deepEqual(await axe(page), [], "the states");
    await page.keyboard.press("Enter");
    await dialog.getByRole("combobox", { name: "To" }).click();
    await page.getByRole("combobox", { name: "Find: To" }).fill("wide lines");
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: "Compare", exact: true }).click();
    await until("both sides are in the address", () => chosen().get("from") === kept.id && /^[0-9a-f]{40}$/.test(chosen().get("to") ?? ""));
    await until("the files of both", async () => (await page.getByRole("treeitem").count()) === 7);

    await page.goto(at("&to=snp_nothing"));
    await page.getByText("The changes could not be loaded.").waitFor();
    await page.getByRole("button", { name: "Show all changes" }).click();
    await row(/wide\.txt/).waitFor();
  });

  test("what was merged can be read when nothing is left to merge", async () => {
    await page.goto(`${instance.url}/${instance.team}/w/${merged.key}?tab=changes`);
    await page.getByText("Everything is merged").waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByRole("button", { name: "Show what was merged" }).click();
    await row(/gone\.ts/).waitFor();
    await until("the files of the merge", async () => (await page.getByRole("treeitem").count()) === 5);
    await diff().getByText("value1 = 1;").waitFor();
    await page.getByRole("button", { name: /^Compare: before the merge/ }).click();
    await page.getByRole("menuitem", { name: "Since your last review" }).getByText("You have not sent one yet").waitFor();
    await page.getByRole("menuitem", { name: "What was merged" }).waitFor();
    await page.keyboard.press("Escape");
  });

  test("both themes, wide and on a phone", async () => {
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.goto(at("&file=src/app/long.ts"));
      await diff().getByText("something else").waitFor();
      await shot(page, `changes-${colorScheme}`);
      assert.deepEqual(await axe(page), [], colorScheme);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(at());
    await row(/long\.ts/).click();
    await diff().getByText("something else").waitFor();
    await shot(page, "changes-phone");
    assert.deepEqual(await axe(page), [], "phone");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await page.getByRole("button", { name: "Files", exact: true }).click();
    await row(/long\.ts/).waitFor();
    assert.deepEqual(page.problems, []);
  });
});
