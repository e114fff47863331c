// Two people at one terminal: who is there, whose the keyboard is, who sizes it; and someone who may only watch.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, root, until } from "../lib/instance.mjs";

let instance;
let browser;
before(async () => {
  if (!haveChromium) return;
  instance = await Instance.start();
  await instance.setUp();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await instance?.stop();
});

/** Makes a user with the command line, as an operator does, and a member of the team with a role. */
async function join_(name, role) {
  const email = `${name.toLowerCase()}@example.com`;
  execFileSync(join(root, "bin/parawork"), ["admin", "create-user", "--config", join(instance.dir, "config.json"), "--email", email, "--name", name, "--team", instance.team, "--role", role, "--password-stdin"], { input: `${password}\n` });
  return email;
}

async function pageOf(email, options, path) {
  const page = await newPage(browser, options);
  await signIn(page, instance, password, email);
  await page.goto(instance.url + path);
  await until("the terminal is live", async () => (await page.locator("[data-link=live]").count()) > 0);
  return page;
}

const skip = !haveChromium && "Chromium is not installed";

test("the keyboard is held, asked for and handed over", { skip }, async () => {
  const ana = await join_("Ana", "member");
  const eve = await join_("Eve", "viewer");
  const ws = await instance.workspace("Together");
  const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "stty -echo; while read l; do echo got $l; done"], cols: 100, rows: 24 });
  const path = `/${instance.team}/w/${ws.key}?session=${s.id}`;
  const mika = await pageOf("mika@example.com", {}, path);
  await until("the first writer sizes it", async () => (await mika.getByText("sized to your screen").count()) > 0);
  const other = await pageOf(ana, { viewport: { width: 1100, height: 700 } }, path);
  const watcher = await pageOf(eve, {}, path);
  await mika.getByText("3 here").waitFor();
  await other.getByText("sized to Mika's screen").waitFor();
  await watcher.getByText("View only").waitFor();
  assert.equal(await watcher.getByRole("button", { name: /control/ }).count(), 0, "a viewer has nothing to hold");

  const said = async (text) => until(`the program got ${text}`, async () => (await instance.output(s.id)).includes(`got ${text}`));
  const type = async (page, text) => {
    await page.locator("[data-terminal] textarea").focus();
    await page.keyboard.type(`${text}\n`);
  };
  await type(other, "from-ana");
  await said("from-ana");

  await mika.getByRole("button", { name: "Take exclusive control" }).click();
  await other.getByText("Mika has exclusive control").waitFor();
  assert.equal(await other.getByRole("button", { name: "Take control" }).count(), 0, "a member takes nothing from the holder");
  await type(other, "lost");
  const refused = await instance.raw("POST", `/sessions/${s.id}/input`, { text: "mine\r" });
  assert.equal(refused.status, 204, "it is Mika's on every way in");

  await other.getByRole("button", { name: "Request control" }).click();
  await mika.getByText("Ana asks for it").waitFor();
  await shot(mika, "watch-asked");
  assert.deepEqual(await axe(mika, [".xterm"]), []);
  await mika.getByRole("button", { name: "Hand over" }).click();
  await other.getByText("You have exclusive control").waitFor();
  await type(other, "hers");
  await said("hers");
  // An owner may take it back.
  await mika.getByRole("button", { name: "Take control" }).click();
  await mika.getByText("You have exclusive control").waitFor();
  await mika.getByRole("button", { name: "Release" }).click();
  await other.getByRole("button", { name: "Take exclusive control" }).waitFor();
  const out = await instance.output(s.id);
  assert.ok(!out.includes("got lost"), `what was typed without the keyboard arrived: ${out}`);

  // The list of workspaces shows who is there.
  await mika.goto(`${instance.url}/${instance.team}/w`);
  await mika.getByText(/Watching: Ana; Eve/).first().waitFor({ state: "attached" });
  await shot(mika, "watch-list");
  for (const page of [mika, other, watcher]) assert.deepEqual(page.problems, []);
});
