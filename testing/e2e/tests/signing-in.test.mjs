// Signing in and one's own account in the browser: second factors, passkeys, login sessions, tokens.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { authenticator, totp } from "../lib/factors.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: "reduce" },
};

describe("signing in", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let at; // passkeys belong to a name: the same server under that of this machine
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    at = instance.url.replace("127.0.0.1", "localhost");
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
  });

  const open = async (options = sizes.wide) => newPage(browser, options);
  const check = async (page, name) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await shot(page, `signing-in-${name}-${colorScheme}`);
      assert.deepEqual(await axe(page), [], `${name}, ${colorScheme}: accessibility`);
    }
  };
  // Wrong codes and passwords are part of what is tested: the browser notes each refusal as an error.
  const close = async (page) => {
    assert.deepEqual(page.problems.filter((p) => !/status of (400|403)/.test(p)), []);
    await page.context().close();
  };
  const security = (page) => page.goto(`${at}/${instance.team}/settings/security`);
  const type = async (page) => {
    await page.goto(`${at}/login`);
    await page.getByLabel("E-mail").fill("mika@example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  const inside = (page) => page.waitForURL((u) => !u.pathname.startsWith("/login"));
  const yes = (page, name) => page.getByRole("alertdialog").getByRole("button", { name }).click();

  test("an authenticator app, its recovery codes, and turning it off", async () => {
    const page = await open(sizes.phone);
    await signIn(page, { url: at }, password);
    await security(page);
    await page.getByRole("button", { name: "Set up an authenticator app" }).click();
    await page.getByRole("img", { name: /^QR code/ }).waitFor();
    const secret = (await page.locator("code", { hasText: /^[A-Z2-7 ]{20,}$/ }).textContent()).replaceAll(" ", "");
    await check(page, "app");
    await page.getByLabel("Code from the app").fill("000000");
    await page.getByRole("alert").getByText(/code is wrong/).waitFor();
    await page.getByLabel("Code from the app").fill(totp(secret));
    const list = page.getByRole("list", { name: "Recovery codes" });
    await list.waitFor();
    const codes = await list.getByRole("listitem").allTextContents();
    assert.equal(codes.length, 10);
    await check(page, "codes");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    assert.equal((await download).suggestedFilename(), "parawork-recovery-codes.txt");
    await page.getByRole("button", { name: "I have saved them" }).click();
    await page.getByText("10 codes left").waitFor();
    const html = await page.content();
    assert.ok(!codes.some((c) => html.includes(c)) && !html.includes(secret), "a secret stayed on the page");
    await check(page, "security-phone");

    // The password alone no longer signs in; the code does, and each once.
    const other = await open();
    await type(other);
    const code = other.getByLabel("Code from your authenticator app");
    await code.waitFor();
    await check(other, "second-step");
    assert.equal((await other.request.get(`${at}/api/v1/me`)).status(), 401);
    await code.fill(totp(secret, 1));
    await inside(other);
    await close(other);

    const third = await open(sizes.phone);
    await type(third);
    await third.getByRole("button", { name: "Use a recovery code" }).click();
    await third.getByLabel("Recovery code").fill(codes[0].toUpperCase());
    await third.getByRole("button", { name: "Sign in" }).click();
    await inside(third);
    await third.goto("about:blank");
    await third.request.post(`${at}/api/v1/logout`);
    await type(third);
    await third.getByRole("button", { name: "Use a recovery code" }).click();
    await third.getByLabel("Recovery code").fill(codes[0]);
    await third.getByRole("button", { name: "Sign in" }).click();
    await third.getByRole("alert").getByText(/was used already/).waitFor();
    await close(third);

    await page.reload();
    await page.getByText("9 codes left").waitFor();
    await page.getByRole("button", { name: "Turn off" }).click();
    await yes(page, "Turn off");
    await page.getByRole("button", { name: "Set up an authenticator app" }).waitFor();
    await close(page);
  });

  test("a passkey: made, as a second factor, and alone", async () => {
    const page = await open();
    const device = await authenticator(page);
    await signIn(page, { url: at }, password);
    await security(page);
    await page.getByRole("button", { name: "Add a passkey" }).click();
    const mine = page.getByRole("list", { name: "Your passkeys" });
    await mine.getByText("Chrome on Linux").waitFor();
    assert.equal((await device.credentials()).length, 1);
    await mine.getByRole("button", { name: /^Rename/ }).click();
    await page.getByLabel("Passkey name").fill("Laptop");
    await page.getByRole("button", { name: "Save" }).click();
    await mine.getByText("Laptop", { exact: true }).waitFor();
    await check(page, "security-wide");

    // While nobody touches the device, the password leads to the second step.
    await device.present(false);
    await page.goto("about:blank"); // a page that notices the end of its login leaves by itself
    await page.request.post(`${at}/api/v1/logout`);
    await type(page);
    const ask = page.getByRole("button", { name: "Use a passkey" });
    await page.getByRole("heading", { name: "Second factor" }).waitFor();
    await device.present(true);
    await ask.click();
    await inside(page);
    const sessions = (await (await page.request.get(`${at}/api/v1/me/login-sessions`)).json()).items;
    assert.deepEqual(sessions.find((s) => s.current).factors, ["password", "passkey"]);

    // Alone, by the button or by the browser's own suggestion in the field, whichever comes first here.
    await page.goto("about:blank"); // a page that notices the end of its login leaves by itself
    await page.request.post(`${at}/api/v1/logout`);
    await page.goto(`${at}/login?next=/${instance.team}/settings/security`);
    await page.waitForURL((u) => u.pathname.endsWith("/settings/security"));
    const again = (await (await page.request.get(`${at}/api/v1/me/login-sessions`)).json()).items;
    assert.deepEqual(again.find((s) => s.current).factors, ["passkey"]);

    await mine.getByRole("button", { name: "Remove the passkey Laptop" }).click();
    await yes(page, "Remove");
    await mine.waitFor({ state: "detached" });
    await close(page);
  });

  test("at an address passkeys cannot belong to the page says what to do", async () => {
    const page = await open();
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/settings/security`);
    await page.getByRole("heading", { name: "Where you are signed in" }).waitFor();
    await page.getByText(/Open this page as http:\/\/localhost:/).waitFor();
    await close(page);
  });

  test("an ended sign-in loses its terminal at once", async () => {
    const ws = await instance.workspace("Ended elsewhere");
    const s = await instance.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", "-c", "echo here; sleep 1000"], cols: 80, rows: 24 });
    const lost = await open();
    await signIn(lost, { url: at }, password);
    await lost.goto(`${at}/${instance.team}/w/${ws.key}`);
    await lost.locator("[data-link=live]").waitFor();
    const closed = new Promise((done) => lost.on("requestfailed", () => {}) && lost.exposeFunction("goneNow", done));
    await lost.evaluate(() => new MutationObserver(() => !document.querySelector("[data-link=live]") && globalThis.goneNow()).observe(document.body, { subtree: true, childList: true, attributes: true }));

    const page = await open(sizes.phone);
    await signIn(page, { url: at }, password);
    await security(page);
    const rows = page.getByRole("list", { name: "Your sign-ins" }).getByRole("listitem");
    await rows.filter({ hasText: "This one" }).waitFor();
    await check(page, "sessions");
    const before = await rows.count();
    await page.getByRole("button", { name: "End all others" }).click();
    await page.getByRole("alertdialog").getByLabel(/^Keep the API token/).check(); // the one of the test itself
    await yes(page, "End them");
    await closed;
    await lost.waitForURL(/\/login/);
    assert.match(decodeURIComponent(lost.url()), new RegExp(`next=/${instance.team}/w/${ws.key}`));
    await until("one is left", async () => (await rows.count()) === 1);
    assert.ok(before > 1);
    await instance.api("POST", `/sessions/${s.id}/stop`, { grace_ms: 200 });
    await close(page);
    await lost.getByRole("button", { name: "Sign in", exact: true }).waitFor();
    await lost.goto("about:blank"); // Chromium may not close a page that still waits for a passkey
    await lost.context().close();
  });

  test("a token with a scope: shown once, bounded, ended", async () => {
    const page = await open(sizes.phone);
    await signIn(page, { url: at }, password);
    // A change the server wants confirmed goes on by itself once it is.
    let refused = false;
    await page.route("**/api/v1/me/tokens", (route) => {
      if (route.request().method() !== "POST" || refused) return route.continue();
      refused = true;
      return route.fulfill({ status: 403, contentType: "application/problem+json", body: JSON.stringify({ code: "confirm_needed", message: "Confirm your identity first.", details: { second_factor: false }, request_id: "r" }) });
    });
    await page.goto(`${at}/${instance.team}/settings/tokens`);
    await page.getByLabel("Name", { exact: true }).fill("Nightly");
    await page.getByRole("combobox", { name: "Team", exact: true }).selectOption({ label: "Harbour only" });
    await page.getByRole("checkbox", { name: /^Work/ }).uncheck();
    await page.getByRole("checkbox", { name: /^Sessions/ }).uncheck();
    assert.ok(await page.getByRole("button", { name: "Create token" }).isDisabled());
    await page.getByRole("checkbox", { name: /^Read/ }).check();
    await check(page, "tokens");
    await page.getByRole("button", { name: "Create token" }).click();
    const dialog = page.getByRole("dialog", { name: "Confirm your identity" });
    await dialog.getByLabel("Password", { exact: true }).fill("not the password");
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await dialog.getByRole("alert").waitFor();
    await check(page, "confirm");
    await dialog.getByLabel("Password", { exact: true }).fill(password);
    await dialog.getByRole("button", { name: "Confirm" }).click();
    const value = await page.locator("code", { hasText: /^pw_user_/ }).filter({ hasNotText: "…" }).textContent();
    const use = (method, path, body) =>
      fetch(`${at}/api/v1${path}`, { method, headers: { Authorization: `Bearer ${value}`, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
    assert.equal((await use("GET", `/teams/${instance.team}/workspaces`)).status, 200);
    const no = await use("POST", `/teams/${instance.team}/workspaces`, { project_id: "x", name: "y" });
    assert.equal(no.status, 403);
    assert.equal((await no.json()).code, "wrong_scope");

    await page.getByRole("button", { name: "Done" }).click();
    const row = page.getByRole("list", { name: "Your tokens" }).getByRole("listitem").filter({ hasText: "Nightly" });
    await row.getByText("read, in Harbour").waitFor();
    assert.ok(!(await page.content()).includes(value), "the token is still on the page");
    await row.getByRole("button", { name: "Revoke the token Nightly" }).click();
    await yes(page, "Revoke");
    await row.waitFor({ state: "detached" });
    assert.equal((await use("GET", `/teams/${instance.team}/workspaces`)).status, 401);
    await close(page);
  });

  test("a link to a first password, a team that requires a second factor, and one that is suspended", async () => {
    const made = await instance.api("POST", "/instance/users", { email: "bo@example.com", name: "Bo", team: instance.team, role: "member" });
    const link = new URL(made.link.url);
    const bo = await open(sizes.phone);
    await bo.goto(`${at}${link.pathname}${link.hash}`);
    await bo.getByLabel("New password").fill("password123");
    assert.equal(new URL(bo.url()).hash, "", "the token stayed in the address");
    await check(bo, "reset");
    await bo.getByRole("button", { name: "Set password" }).click();
    await bo.locator("[aria-invalid=true]").waitFor(); // a common one
    await bo.getByLabel("New password").fill("a lighthouse in fog");
    await bo.getByRole("button", { name: "Set password" }).click();
    await bo.getByRole("link", { name: "Sign in", exact: true }).click();
    await signIn(bo, { url: at }, "a lighthouse in fog", "bo@example.com");
    await bo.getByRole("link", { name: /^Projects/ }).first().waitFor();

    // The door closes while the page is open.
    const mika = await open();
    await authenticator(mika);
    await signIn(mika, { url: at }, password);
    await security(mika);
    await mika.getByRole("button", { name: "Add a passkey" }).click();
    await mika.getByRole("list", { name: "Your passkeys" }).waitFor();
    const setting = async (second_factor) => assert.equal((await mika.request.patch(`${at}/api/v1/teams/${instance.team}`, { data: { second_factor } })).status(), 200);
    await setting(true);
    await bo.getByRole("heading", { name: "Harbour requires a second factor" }).waitFor();
    await bo.getByRole("button", { name: "Set up an authenticator app" }).waitFor();
    await check(bo, "team-asks");
    await bo.getByRole("button", { name: "Set up an authenticator app" }).click();
    const secret = (await bo.locator("code", { hasText: /^[A-Z2-7 ]{20,}$/ }).textContent()).replaceAll(" ", "");
    await bo.getByLabel("Code from the app").fill(totp(secret));
    await bo.getByRole("button", { name: "I have saved them" }).click();
    await bo.getByRole("link", { name: /^Projects/ }).first().waitFor();
    await setting(false);

    const team = (await instance.api("GET", "/teams")).items.find((t) => t.slug === instance.team);
    await instance.api("POST", `/instance/teams/${team.id}/suspend`);
    await bo.getByRole("heading", { name: "Harbour is suspended" }).waitFor();
    await check(bo, "team-suspended");
    await instance.api("POST", `/instance/teams/${team.id}/restore`);
    await bo.getByRole("button", { name: "Check again" }).click();
    await bo.getByRole("link", { name: /^Projects/ }).first().waitFor();
    await close(bo);
    await close(mika);
  });
});
