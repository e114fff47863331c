// The Browser tab: an agent fills the form of a web site, a person watches in another browser, takes over, types and gives back, and the agent
// sends the form. The server is killed while the person watches.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const FORM = `<!doctype html><title>Form</title><body style="margin:0"><form method=post>
<input name=name aria-label=Name style="position:absolute;left:0;top:0;width:640px;height:400px">
<button style="position:absolute;left:640px;top:400px;width:640px;height:400px">Send</button></form>`;

/** A web site with a form, and what was sent to it. */
async function site() {
  const sent = [];
  const server = createServer(async (req, res) => {
    res.setHeader("Content-Type", "text/html");
    if (req.method !== "POST") return res.end(FORM);
    let body = "";
    for await (const piece of req) body += piece;
    sent.push(new URLSearchParams(body).get("name"));
    res.end("<!doctype html><title>Thank you</title><h1>Thank you</h1>");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}/`, sent, close: () => server.close() };
}

// Types until it is refused, waits for the browser, and sends the form.
const agent = (url) => `
ref() { parawork browser snapshot | sed -n "s/.*$1.*\\(@e[0-9]*\\).*/\\1/p" | head -1; }
parawork browser open ${url}
n=$(ref Name)
while parawork browser type "$n" agent >out 2>&1; do sleep 0.3; done
cat out; echo REFUSED
parawork browser wait --seconds 60
parawork browser click "$(ref Send)"
echo FINISHED; sleep 600`;

describe("browser", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let web;
  before(async () => {
    web = await site();
    browser = await launch();
    instance = await Instance.start({ browser: { allowUnsandboxed: true } });
    await instance.setUp();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    web?.close();
  });

  test("a person takes over from an agent and gives back", async () => {
    const ws = await instance.workspace("Fill a form");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=browser`);
    await page.getByText("No browser is running").waitFor();
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", agent(web.url)], cols: 100, rows: 24 });
    await page.getByText("Agents have control.").waitFor();
    await page.getByRole("button", { name: /^Form/ }).waitFor();
    await until("the page is drawn", async () =>
      page.getByRole("img", { name: "The page Form" }).evaluate((c) => {
        const p = c.getContext("2d").getImageData(900, 600, 1, 1).data; // the grey button
        return p[3] === 255 && p[0] > 200;
      }),
    );
    assert.deepEqual(await axe(page, []), [], "accessibility");
    await page.keyboard.press("Control+Shift+O");
    await page.getByText("You have control.").or(page.getByRole("button", { name: "Take control" })).first().waitFor();
    if (await page.getByRole("button", { name: "Take control" }).count()) await page.getByRole("button", { name: "Take control" }).click();
    await page.getByText("You have control.").waitFor();
    await until("the agent is refused", async () => (await instance.output(s.id)).includes("REFUSED"));
    assert.match(await instance.output(s.id), /has taken over the browser since/);

    const canvas = page.getByRole("img", { name: "The page Form" });
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width * 0.3, box.y + box.height * 0.3);
    await page.keyboard.press("End");
    await page.keyboard.type(" and Mika");
    await shot(page, "browser");
    await page.getByRole("button", { name: "Release control" }).click();
    await page.getByRole("button", { name: /^Thank you/ }).waitFor();
    assert.deepEqual(web.sent, ["agent and Mika"]);
    await until("the agent has finished", async () => (await instance.output(s.id)).includes("FINISHED"));

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=browser`);
    await phone.getByText("2 people watch.").waitFor();
    assert.deepEqual(await axe(phone, []), [], "accessibility on a phone");
    await shot(phone, "browser-phone");

    await page.getByRole("button", { name: "Take control" }).click();
    await page.getByText("You have control.").waitFor();
    await instance.kill();
    await instance.boot();
    await page.getByText("Agents have control. 2 people watch.").waitFor(); // each came back by itself
    await page.getByText("The server has found the browser again").waitFor();
    await page.getByRole("img", { name: "The page Thank you" }).waitFor();
  });

  test("a link leads to one run and one screenshot", async () => {
    const ws = await instance.workspace("Follow links");
    const { id } = await instance.api("POST", `/workspaces/${ws.id}/code`, { language: "shell", code: "echo first" });
    await instance.api("POST", `/workspaces/${ws.id}/code`, { language: "shell", code: "echo second" });
    await instance.api("POST", `/workspaces/${ws.id}/tools/browser_open`, { arguments: { url: web.url } });
    const shown = await instance.api("POST", `/workspaces/${ws.id}/tools/browser_screenshot`, { arguments: { name: "form.png" } });
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=code&item=${id}`);
    await page.locator("li[aria-current=true]").filter({ hasText: "echo first" }).waitFor();
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=artifacts&item=${shown.structured.artifact_id}`);
    await page.getByRole("heading", { name: "form.png" }).waitFor();
    await page.close();
  });
});
