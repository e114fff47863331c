// Taking part of it: hunks staged, committed and discarded as they were shown, a file edited while somebody else writes it, files of
// another workspace.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn, unbatched } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

let instance;
let browser;
let page;
let ws;
let other;

const lines = (changed = {}) => Array.from({ length: 40 }, (_, i) => changed[i + 1] ?? `line ${i + 1}`).join("\n") + "\n";

async function put(w, path, text) {
  const r = await fetch(`${instance.url}/api/v1/workspaces/${w.id}/files?path=${encodeURIComponent(path)}`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${instance.token}`, "Content-Type": "application/octet-stream" },
    body: text,
  });
  assert.equal(r.status, 200, await r.text());
}

async function get(w, path) {
  const r = await instance.raw("GET", `/workspaces/${w.id}/files?path=${encodeURIComponent(path)}`);
  return r.status === 404 ? undefined : r.text();
}

async function sh(w, command) {
  const r = await instance.api("POST", `/workspaces/${w.id}/exec`, { command });
  assert.equal(r.exit_code, 0, r.stderr);
  return r.stdout;
}

/** Waits until a change is in the set of changes, and so in a snapshot. */
const seen = (w, path, additions) =>
  until(`${path} is seen`, async () => {
    await instance.api("POST", `/workspaces/${w.id}/sync`);
    const set = await instance.api("GET", `/workspaces/${w.id}/changes`);
    return set.items.some((c) => c.path === path && (additions === undefined || c.additions === additions));
  });

before(async () => {
  if (!haveChromium) return;
  instance = await Instance.start();
  await instance.setUp();
  ws = await instance.workspace("Parts");
  other = await instance.newWorkspace(ws.project_id, "The other");
  await put(ws, "notes.txt", lines());
  await sh(ws, "git add notes.txt && git -c user.name=A -c user.email=a@example.com commit -qm notes");
  await put(ws, "notes.txt", lines({ 3: "three", 20: "twenty", 37: "thirty-seven" }));
  await seen(ws, "notes.txt");
  await put(other, "taken.txt", "from there\n");
  await put(other, "notes.txt", "theirs\n");
  await seen(other, "taken.txt");
  browser = await launch();
  page = await newPage(browser);
  await signIn(page, instance, password);
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

const part = { skip: !haveChromium && "no Chromium" };

test("a hunk is staged, committed and discarded, and comes back", part, async () => {
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes&from=head`);
  await page.getByRole("button", { name: "Stage the hunk at line 17 of notes.txt", exact: true }).click();
  await page.getByText("Staged the hunk", { exact: true }).waitFor();
  assert.match(await sh(ws, "git diff --cached"), /\+twenty/);
  assert.doesNotMatch(await sh(ws, "git diff --cached"), /\+three/);
  // What is staged is offered to be taken out, and staged again.
  await page.getByRole("button", { name: "Unstage the hunk at line 17 of notes.txt" }).click();
  await page.getByText("The hunk is no longer staged", { exact: true }).waitFor();
  assert.equal(await sh(ws, "git diff --cached"), "");
  await page.getByRole("button", { name: "Stage the hunk at line 17 of notes.txt", exact: true }).click();
  await page.getByRole("button", { name: "Unstage the hunk at line 17 of notes.txt" }).waitFor();
  await page.getByRole("button", { name: "Stage the hunk at line 1 of notes.txt", exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Stage the hunk at line 17 of notes.txt", exact: true }).count(), 0);
  await page.getByRole("button", { name: "1 staged file" }).click();
  const dialog = page.getByRole("dialog", { name: "Staged" });
  await dialog.getByRole("button", { name: "notes.txt", exact: true }).click();
  await dialog.getByText("+ twenty").waitFor();
  assert.deepEqual(await axe(page), []);
  await shot(page, "parts-staged");
  await dialog.getByLabel("Commit message").fill("Twenty");
  await dialog.getByRole("button", { name: "Commit 1 staged file" }).click();
  await page.getByText(/^Committed/).first().waitFor();
  assert.equal((await sh(ws, "git diff --stat HEAD -- notes.txt")).includes("2 insertions"), true);

  await page.getByRole("button", { name: "Discard the hunk at line 1 of notes.txt" }).click();
  await page.getByText("Discarded the hunk", { exact: true }).waitFor();
  assert.equal(await get(ws, "notes.txt"), lines({ 20: "twenty", 37: "thirty-seven" }));
  await page.getByRole("button", { name: "Undo" }).click();
  await until("it is back", async () => (await get(ws, "notes.txt")) === lines({ 3: "three", 20: "twenty", 37: "thirty-seven" }));
  assert.deepEqual(page.problems, []);
});

test("a hunk that changed since it was shown is refused, with a way on", part, async () => {
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes&from=head`);
  const discard = page.getByRole("button", { name: "Discard the hunk at line 34 of notes.txt" });
  await discard.waitFor();
  const state = lines({ 3: "three", 20: "twenty", 37: "another thirty-seven" });
  await page.getByRole("region", { name: "Diff" }).press("ArrowDown"); // a reader reads: the lines stay as they are
  await put(ws, "notes.txt", state);
  await discard.click();
  await page.getByText("Nothing was discarded", { exact: true }).waitFor();
  assert.equal(await get(ws, "notes.txt"), state);
  assert.deepEqual(page.problems, []);
});

test("a file is edited while somebody else writes it", part, async () => {
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}/edit?path=story.txt`);
  await page.getByText("New file").first().waitFor();
  const text = page.getByRole("textbox", { name: "Text of story.txt" });
  await text.fill("one\ntwo\nthree\nfour\nfive");
  await page.keyboard.press("Control+s");
  await until("it is written", async () => (await get(ws, "story.txt")) === "one\ntwo\nthree\nfour\nfive");
  await page.getByText("Saved", { exact: true }).waitFor();

  // Mine and the agent's in other lines: put together. Text that was not saved outlives a reload.
  await text.fill("one\ntwo\nthree\nfour\nFIVE");
  await page.getByText("Unsaved").waitFor();
  await put(ws, "story.txt", "ONE\ntwo\nthree\nfour\nfive");
  page.once("dialog", (d) => void d.accept());
  await page.reload();
  await page.getByText("The file changed since you opened it").first().waitFor();
  assert.equal(await get(ws, "story.txt"), "ONE\ntwo\nthree\nfour\nfive");
  assert.deepEqual(await axe(page), []);
  await page.getByRole("button", { name: "Merge both" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await until("both are in it", async () => (await get(ws, "story.txt")) === "ONE\ntwo\nthree\nfour\nFIVE");

  // In the same line: both are shown, and somebody chooses.
  await text.fill("ONE\ntwo\nmine\nfour\nFIVE");
  await put(ws, "story.txt", "ONE\ntwo\ntheirs\nfour\nFIVE");
  await page.keyboard.press("Control+s");
  await page.getByText("1 place").first().waitFor();
  await shot(page, "editor-conflict");
  await page.getByRole("radio", { name: "Yours" }).check();
  await page.getByRole("button", { name: "Merge both" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await until("mine is in it", async () => (await get(ws, "story.txt")) === "ONE\ntwo\nmine\nfour\nFIVE");

  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByLabel("Path of the file").fill("tales/story.txt");
  await page.getByRole("button", { name: "Rename" }).last().click();
  await until("it has another name", async () => (await get(ws, "tales/story.txt")) !== undefined && (await get(ws, "story.txt")) === undefined);
  assert.deepEqual(page.problems, []);
});

test("all files are browsed, not only the changed ones", part, async () => {
  await sh(ws, "mkdir -p web/icons empty && printf 'plain\\n' > web/app.css && printf '\\0PNG' > web/icons/logo.bin && head -c 2100000 /dev/zero | tr '\\0' x > web/large.txt");
  await seen(ws, "web/app.css");
  await page.goto("about:blank"); // the page before reads folders as files come
  await unbatched(page);
  const asked = [];
  page.on("request", (r) => /\/workspaces\/[^/]+\/tree\b/.test(r.url()) && asked.push(new URL(r.url()).searchParams.get("path") ?? ""));
  const tree = page.getByRole("tree", { name: "All files" });
  const row = (name) => tree.getByRole("treeitem", { name });

  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes`);
  await page.getByRole("treeitem", { name: /notes\.txt/ }).waitFor();
  assert.deepEqual(asked, [], "nothing is listed before somebody looks");
  await page.getByRole("link", { name: "All files" }).click();
  await row(/web/).waitFor();
  assert.deepEqual(asked, [""], "a folder is read when it is opened");
  assert.deepEqual(await axe(page), []);
  await row("empty").click();
  await tree.getByText("Empty folder").waitFor();

  // By keyboard alone: the folder, what is in it, the file.
  await row(/web/).focus();
  await page.keyboard.press("ArrowRight");
  await row(/app\.css/).waitFor();
  assert.equal(await row(/web/).getAttribute("aria-expanded"), "true");
  assert.match(await row(/app\.css/).innerText(), /added/);
  await page.keyboard.type("app"); // it goes into the filter
  await until("it is filtered", async () => (await tree.getByRole("treeitem").count()) === 2);
  await shot(page, "files");
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Text of web/app.css" }).getByText("plain").waitFor();
  await page.getByRole("textbox", { name: "Filter the files" }).fill("");
  assert.equal(await row(/app\.css/).getAttribute("aria-current"), "true");

  // What cannot be shown says so; a new file comes into the tree.
  await row(/icons/).click();
  await row(/logo\.bin/).click();
  await page.getByText("It is binary").waitFor();
  await page.getByRole("link", { name: "Download" }).waitFor();
  await row(/large\.txt/).click();
  await page.getByText("It is larger than 2 MB").waitFor();
  await put(ws, "web/late.txt", "late\n");
  await seen(ws, "web/late.txt");
  await row(/late\.txt/).waitFor();
  assert.deepEqual(page.problems, []);
});

test("files are created, moved, uploaded and deleted, with a way back", part, async () => {
  await sh(ws, "mkdir -p kit/deep built && printf 'one\\nNeedle here\\n' > kit/deep/found.ts && printf 'built/\\n' >> .gitignore && printf x > built/out.js");
  await seen(ws, "kit/deep/found.ts");
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}/edit`);
  const tree = page.getByRole("tree", { name: "All files" });
  const row = (name) => tree.getByRole("treeitem", { name });
  await row(/built/).getByText("ignored by git").waitFor({ state: "attached" });

  // A folder is moved by keyboard, and moved back.
  await row(/^kit/).focus();
  await page.keyboard.press("F2");
  const naming = page.getByRole("dialog", { name: "Rename or move kit" });
  await naming.getByLabel("Path in the workspace").fill(".git/kit");
  await naming.getByText("Files of .git cannot be changed here.").waitFor();
  assert.deepEqual(await axe(page), []);
  await naming.getByLabel("Path in the workspace").fill("lib/kit");
  await page.keyboard.press("Enter");
  await row(/^lib/).waitFor();
  assert.equal(await get(ws, "lib/kit/deep/found.ts"), "one\nNeedle here\n");
  await page.getByRole("button", { name: "Undo" }).click();
  await until("it is back", async () => (await get(ws, "kit/deep/found.ts")) !== undefined);

  // A folder is deleted and restored; what git ignores is deleted only after a question.
  await row(/^kit/).waitFor();
  await row(/^kit/).focus();
  await page.keyboard.press("Delete");
  await page.getByText("Deleted kit", { exact: true }).waitFor();
  assert.equal(await get(ws, "kit/deep/found.ts"), undefined);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Restored kit", { exact: true }).waitFor();
  assert.equal(await get(ws, "kit/deep/found.ts"), "one\nNeedle here\n");
  await row(/^built/).focus();
  await page.keyboard.press("Delete");
  const sure = page.getByRole("alertdialog", { name: "Delete built for good?" });
  await sure.waitFor();
  await sure.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("alertdialog").waitFor({ state: "detached" });
  assert.equal(await get(ws, "built/out.js"), "x");

  // The menu of a row, with a folder and a file that are made, files that are sent, an archive that is downloaded.
  await row(/^kit/).click({ button: "right" });
  await page.getByRole("menuitem", { name: "New folder…" }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByRole("menuitem", { name: "New folder…" }).click();
  await page.getByRole("dialog", { name: "New folder" }).getByLabel("Path in the workspace").fill("kit/fresh");
  await page.keyboard.press("Enter");
  await row(/fresh/).waitFor();
  await row(/fresh/).click({ button: "right" });
  const chosen = page.waitForEvent("filechooser");
  await page.getByRole("menuitem", { name: "Upload files…" }).click();
  await (await chosen).setFiles([{ name: "sent.txt", mimeType: "text/plain", buffer: Buffer.from("sent\n") }]);
  await page.getByText("Uploaded 1 file", { exact: true }).waitFor();
  assert.equal(await get(ws, "kit/fresh/sent.txt"), "sent\n");
  await row(/^kit/).click({ button: "right" });
  const archive = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: /^Download/ }).click();
  assert.equal((await archive).suggestedFilename(), "kit.zip");
  assert.deepEqual(page.problems, []);
});

test("files are opened by name, and searched", part, async () => {
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}/edit`);
  await page.getByRole("tree", { name: "All files" }).waitFor();
  await page.keyboard.press("Control+p");
  const open = page.getByRole("dialog", { name: /^Open a file of/ });
  await open.getByRole("combobox").fill("kdfound:2");
  await open.getByRole("option", { name: /found\.ts/ }).waitFor();
  assert.deepEqual(await axe(page), []);
  await shot(page, "quick-open");
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Text of kit/deep/found.ts" }).getByText("Needle here").waitFor();

  await page.keyboard.press("Control+Shift+F");
  await page.getByRole("textbox", { name: "Search in files" }).fill("needle");
  await page.getByText("1 line in 1 file", { exact: true }).waitFor();
  assert.deepEqual(await axe(page), []);
  await shot(page, "search-files");
  await page.getByRole("textbox", { name: "Search in files" }).press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/goto=2/);
  await page.getByRole("button", { name: "Match case" }).click();
  await page.getByText("0 lines in 0 files", { exact: true }).waitFor();
  assert.deepEqual(page.problems, []);
});

test("files of another workspace are taken, with a preview", part, async () => {
  await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes`);
  await page.getByRole("button", { name: "More: copy files, new file" }).click();
  await page.getByRole("menuitem", { name: "Copy files from another workspace…" }).click();
  const dialog = page.getByRole("dialog", { name: "Copy files from another workspace" });
  await dialog.getByLabel("From").selectOption(other.id);
  await dialog.getByLabel("taken.txt").check();
  await dialog.getByLabel("notes.txt").check();
  await dialog.getByRole("button", { name: "Preview 2 files" }).click();
  await dialog.getByText("also changed in this workspace").waitFor();
  assert.deepEqual(await axe(page), []);
  await dialog.getByRole("button", { name: "Copy 2 files" }).click();
  await page.getByText("Copied 2 files", { exact: true }).waitFor();
  assert.equal(await get(ws, "taken.txt"), "from there\n");
  assert.equal(await get(ws, `notes.${other.key}.txt`), "theirs\n");
  assert.match(await get(ws, "notes.txt"), /line 1\n/);
  assert.deepEqual(page.problems, []);
});

test("the same on a phone, in both themes", part, async () => {
  const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
  await signIn(phone, instance, password);
  await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=changes&from=head`);
  await phone.getByRole("button", { name: "More: copy files, new file" }).waitFor();
  const both = async (what, there) => {
    for (const colorScheme of ["light", "dark"]) {
      await phone.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await phone.reload(); // no colour is on its way from the other theme
      await there.waitFor();
      assert.deepEqual(await axe(phone), [], `${what}, ${colorScheme}`);
    }
    assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
  };
  await both("the list", phone.getByRole("treeitem", { name: /notes\.txt/ }));
  await phone.getByRole("treeitem", { name: /notes\.txt/ }).tap();
  await phone.getByRole("button", { name: "Comment on notes.txt", exact: true }).waitFor();
  await phone.getByRole("button", { name: "More actions for notes.txt", exact: true }).tap();
  await phone.getByRole("menuitem", { name: "Edit the file" }).tap();
  await both("the editor", phone.getByRole("textbox", { name: "Text of notes.txt" }));
  await shot(phone, "editor-phone");
  await phone.getByRole("button", { name: "More: new file, link, rename, delete" }).tap();
  await phone.getByRole("menuitem", { name: "Rename…" }).waitFor();
  await phone.keyboard.press("Escape");
  await phone.getByRole("button", { name: "All files", exact: true }).tap();
  await both("all files", phone.getByRole("treeitem", { name: /notes\.txt/ }));
  await shot(phone, "files-phone");
  await phone.getByRole("treeitem", { name: /notes\.txt/ }).tap();
  await phone.getByRole("textbox", { name: "Text of notes.txt" }).waitFor();
  assert.deepEqual(phone.problems, []);
  await phone.context().close();
});
