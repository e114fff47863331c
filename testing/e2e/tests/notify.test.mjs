// Notifications outside the page: a webhook added, tested, and a failed delivery shown on the screen; a push message shown by the service
// worker, and its click.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

let instance;
let browser;
let hook;
const told = [];
before(async () => {
  if (!haveChromium) return;
  hook = createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => {
      told.push({ event: req.headers["parawork-event"], signature: req.headers["parawork-signature"], body: JSON.parse(body) });
      res.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(hook, "listening");
  instance = await Instance.start({ outgoing: { allow: ["127.0.0.0/8"] } });
  await instance.setUp();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await instance?.stop();
  hook?.close();
});

const skip = !haveChromium && "Chromium is not installed";

test("a webhook is added, tried and told", { skip }, async () => {
  for (const colorScheme of ["dark", "light"]) {
    const page = await newPage(browser, { colorScheme, reducedMotion: "reduce" });
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/settings/team`);
    await page.getByRole("button", { name: "Add a webhook" }).click();
    await page.getByLabel("Address").fill("https://10.1.2.3/hook");
    await page.getByRole("region", { name: "Webhooks" }).getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("inside a network this server does not reach out to").waitFor();
    assert.ok(page.problems.every((p) => /status of 400/.test(p)), String(page.problems));
    page.problems.length = 0; // the refusal that was asked for
    await page.getByLabel("Address").fill(`http://127.0.0.1:${hook.address().port}/secret-token-in-the-path`);
    await page.getByRole("textbox", { name: "Name", exact: true }).fill(`Channel ${colorScheme}`);
    await page.getByLabel("has finished").uncheck();
    assert.deepEqual(await axe(page), [], `${colorScheme}: the form`);
    await page.getByRole("region", { name: "Webhooks" }).getByRole("button", { name: "Add", exact: true }).click();
    const key = page.getByRole("status").filter({ hasText: "Copy the signing key now. It is not shown again." });
    await key.waitFor();
    assert.ok(await key.evaluate((el) => el === document.activeElement), "the key has the focus, as the form is gone");
    await page.getByRole("button", { name: "Done" }).click();
    assert.ok(!(await page.content()).includes("secret-token"), "the address is not shown again");
    await page.getByRole("button", { name: `Send a test to Channel ${colorScheme}` }).click();
    await page.getByText("Delivered").first().waitFor();
    assert.equal(told.at(-1).body.type, "ping");
    await page.getByRole("button", { name: `More actions for Channel ${colorScheme}` }).click();
    await page.getByText("delivered · 204").waitFor();
    assert.deepEqual(await axe(page), [], `${colorScheme}: the list`);
    await shot(page, `webhooks-${colorScheme}`);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
  const ws = await instance.workspace("Break");
  await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "exit 9"] });
  await until("both are notified of the failure", () => told.filter((t) => t.body.type === "attention.failed").length === 2);
  assert.ok(told.every((t) => /^t=\d+,v1=[0-9a-f]{64}$/.test(t.signature)));
});

test("a push message is shown, and not about what is looked at", { skip }, async () => {
  const page = await newPage(browser, { serviceWorkers: "allow" });
  await page.context().grantPermissions(["notifications"], { origin: instance.url });
  await signIn(page, instance, password);
  await page.goto(`${instance.url}/${instance.team}/settings/notifications`);
  await page.getByRole("heading", { name: "When Parawork is closed" }).waitFor();
  await page.getByRole("group", { name: "Push: An agent has finished" }).getByRole("button", { name: "Everybody’s" }).click();
  await until("the rule is kept", async () => (await instance.api("GET", "/me/notifications")).rules.finished === "all");
  assert.deepEqual(await axe(page), []);
  await shot(page, "push");

  const cdp = await page.context().newCDPSession(page);
  const versions = [];
  cdp.on("ServiceWorker.workerRegistrationUpdated", (e) => versions.push(...e.registrations));
  await cdp.send("ServiceWorker.enable");
  await page.evaluate(async () => {
    await navigator.serviceWorker.register("/sw.js", { scope: "/" });
    await navigator.serviceWorker.ready;
  });
  await until("the worker is known", () => versions.length > 0);
  const push = (data) => cdp.send("ServiceWorker.deliverPushMessage", { origin: instance.url, registrationId: versions[0].registrationId, data: typeof data === "string" ? data : JSON.stringify(data) });
  const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map((n) => ({ title: n.title, tag: n.tag, path: n.data.path })));

  // Chromium drops a message silently when the worker does not start in time on a busy machine. Like a push service, send it again: a
  // message with the same tag takes the place of the one before.
  const pushed = async (data, what, holds) => {
    for (let left = 5; ; left--) {
      await push(data);
      try {
        return await until(what, holds, 20_000);
      } catch (e) {
        if (left === 0) throw e;
      }
    }
  };

  const asks = { title: "Claude Code asks: Run npm test?", body: "PW-1 Break", tag: "ws_1", path: `/${instance.team}/w/PW-1?session=s` };
  await pushed(asks, "it is shown", async () => (await shown()).length === 1);
  assert.deepEqual((await shown())[0], { title: "Claude Code asks: Run npm test?", tag: "ws_1", path: `/${instance.team}/w/PW-1?session=s` });
  await pushed({ title: "Newer", tag: "ws_1", path: "https://evil.example.com/" }, "the newer one takes its place", async () => (await shown())[0]?.title === "Newer");
  assert.deepEqual(await shown(), [{ title: "Newer", tag: "ws_1", path: "/" }], "a message leads nowhere but to this server");
  await pushed("not JSON", "an unreadable message is shown as well", async () => (await shown()).some((n) => n.title === "Something needs you"));
  assert.deepEqual(page.problems, []);
});
