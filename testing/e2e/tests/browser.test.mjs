// The Browser tab: an agent fills a form, a person watches, takes over and gives back, and the agent goes on.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

// Types until it is refused, waits for the browser, and sends the form.
const AGENT = `
cat > form.html <<'END'
<!doctype html><title>Form</title><body style="margin:0">
<input id=name aria-label=Name style="position:absolute;left:0;top:0;width:640px;height:400px">
<button style="position:absolute;left:640px;top:400px;width:640px;height:400px" onclick="document.title='sent '+document.getElementById('name').value">Send</button>
END
ref() { parawork browser snapshot | sed -n "s/.*$1.*\\(@e[0-9]*\\).*/\\1/p" | head -1; }
parawork browser open "$PWD/form.html"
n=$(ref Name)
while parawork browser type "$n" agent >out 2>&1; do sleep 0.3; done
cat out; echo REFUSED
parawork browser wait --seconds 60
parawork browser click "$(ref Send)"
echo FINISHED; sleep 600`;

describe("browser", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  before(async () => {
    browser = await launch();
    instance = await Instance.start({ browser: { allowUnsandboxed: true } });
    await instance.setUp();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  test("a person takes over from an agent and gives back", async () => {
    const ws = await instance.workspace("Fill a form");
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=browser`);
    await page.getByText("No browser is running").waitFor();
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", AGENT], cols: 100, rows: 24 });
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
    await page.getByText("You have control.").or(page.getByRole("button", { name: "Take over" })).first().waitFor();
    if (await page.getByRole("button", { name: "Take over" }).count()) await page.getByRole("button", { name: "Take over" }).click();
    await page.getByText("You have control.").waitFor();
    await until("the agent is refused", async () => (await instance.output(s.id)).includes("REFUSED"));
    assert.match(await instance.output(s.id), /has taken over the browser since/);

    const canvas = page.getByRole("img", { name: "The page Form" });
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width * 0.3, box.y + box.height * 0.3);
    await page.keyboard.press("End");
    await page.keyboard.type(" and Mika");
    await shot(page, "browser");
    await page.getByRole("button", { name: "Give back" }).click();
    await page.getByRole("button", { name: /^sent agent and Mika/ }).waitFor();
    await until("the agent has finished", async () => (await instance.output(s.id)).includes("FINISHED"));

    const phone = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" });
    await signIn(phone, instance, password);
    await phone.goto(`${instance.url}/${instance.team}/w/${ws.key}?tab=browser`);
    await phone.getByText("2 people watch.").waitFor();
    assert.deepEqual(await axe(phone, []), [], "accessibility on a phone");
    await shot(phone, "browser-phone");
  });
});
