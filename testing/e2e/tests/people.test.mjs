// Teams and who is in them, in the browser: an invite, roles, leaving, several teams, suspension by an operator, and the audit of it all.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join as join_ } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, root } from "../lib/instance.mjs";

const other = "another good long one";

describe("people", { skip: !haveChromium && "Chromium is not installed" }, () => {
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

  const settings = (page, section) => page.goto(`${instance.url}/${instance.team}/settings/${section}`);

  /** Makes an invite through the screen; its link. */
  const invite = async (page, role, email = "") => {
    await settings(page, "members");
    await page.getByLabel("E-mail (optional)").fill(email);
    await page.getByLabel("Role", { exact: true }).selectOption(role);
    await page.getByRole("button", { name: "Create invite" }).click();
    const shown = page.getByRole("status").filter({ hasText: "It is not shown again" });
    return shown.getByText(/\/join#/).innerText();
  };

  /** Takes an invite as somebody new. */
  const join = async (page, link, name, email) => {
    await page.goto(link);
    await page.getByRole("heading", { name: /^Join/ }).waitFor();
    await page.waitForFunction(() => location.hash === ""); // the token is removed from the address
    await page.getByLabel("Your name").fill(name);
    if (email) await page.getByLabel("E-mail").fill(email);
    await page.getByLabel("Password").fill(other);
    await page.getByRole("button", { name: "Create account and join" }).click();
    await page.waitForURL(new RegExp(`/${instance.team}/`));
  };

  for (const [size, colorScheme, viewport] of [
    ["wide", "light", { width: 1280, height: 720 }],
    ["phone", "dark", { width: 390, height: 844 }],
  ]) {
    test(`a new name and address, and settings found by a word, ${size}`, async () => {
      const [email, next] = [`dee-${size}@example.com`, `dee-${size}@new.example.com`];
      execFileSync(join_(root, "bin/parawork"), ["admin", "create-user", "--config", join_(instance.dir, "config.json"), "--email", email, "--name", "Dee", "--password-stdin"], { input: `${password}\n` });
      await instance.api("POST", `/teams/${instance.team}/members`, { email, role: "member" });
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await page.goto(`${instance.url}/login`);
      await page.getByLabel(/e-?mail/i).fill(email);
      await page.getByLabel(/password/i).fill(password);
      await page.getByRole("button", { name: /sign in/i }).click();
      await page.waitForURL((u) => !u.pathname.startsWith("/login"));
      await page.getByRole("list", { name: "Invitations" }).getByRole("button", { name: /^(Join|Accept)/ }).click();
      await page.waitForURL(new RegExp(`/${instance.team}/`));
      await settings(page, "profile");
      await page.getByLabel("Name", { exact: true }).fill("Dee of the harbour");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText("Saved").waitFor();
      await page.getByLabel("E-mail address").fill(next);
      await page.getByRole("button", { name: "Change" }).click();
      await page.waitForFunction(async (to) => (await (await fetch("/api/v1/me")).json()).user.email === to, next);
      assert.equal((await (await page.request.get(`${instance.url}/api/v1/me`)).json()).user.name, "Dee of the harbour");
      await shot(page, `profile-${colorScheme}-${size}`);
      assert.deepEqual(await axe(page), []);
      const find = page.getByRole("searchbox", { name: "Find a setting" });
      await find.fill("dark");
      await page.getByRole("list", { name: "Settings found" }).getByRole("link", { name: /^Appearance/ }).waitFor();
      await find.press("Enter");
      await page.getByRole("radiogroup", { name: "Theme" }).or(page.getByRole("group", { name: "Theme" })).first().waitFor();
      assert.equal(await find.inputValue(), "");
      // What belongs together is on one page, as tabs.
      await page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name: "Security" }).click();
      await page.getByRole("navigation", { name: "Security" }).getByRole("link", { name: "API tokens" }).click();
      await page.waitForURL(/settings\/tokens$/);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  for (const [size, colorScheme, viewport] of [
    ["wide", "dark", { width: 1440, height: 900 }],
    ["phone", "light", { width: 390, height: 844 }],
  ]) {
    test(`an invite, a role, leaving, ${size}`, async () => {
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await signIn(page, instance, password);
      const link = await invite(page, "member");
      const open = page.getByRole("list", { name: "Open invites" });
      await open.getByText("anyone with the link, as a member").first().waitFor();
      await shot(page, `members-${colorScheme}-${size}`);
      assert.deepEqual(await axe(page), []);

      const name = `Ada ${size}`;
      const guest = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await guest.goto(link);
      await guest.getByText("Mika invites you as a member").waitFor();
      await shot(guest, `join-${colorScheme}-${size}`);
      assert.deepEqual(await axe(guest), []);
      await join(guest, link, name, `ada-${size}@example.com`);

      // It works once.
      const late = await newPage(browser);
      await late.goto(link);
      await late.getByRole("heading", { name: "This invite is no longer valid" }).waitFor();
      await late.context().close();

      await page.reload();
      await page.getByLabel(`Role of ${name}`).selectOption("viewer");
      await guest.goto(`${instance.url}/${instance.team}/settings/members`);
      await guest.getByRole("listitem").filter({ hasText: name }).getByText("viewer").waitFor();
      assert.equal(await guest.getByRole("button", { name: "Create invite" }).count(), 0);
      assert.equal(await guest.getByRole("link", { name: "Audit" }).count(), 0);

      await guest.getByRole("button", { name: "Leave the team" }).click();
      await guest.getByRole("alertdialog").getByRole("button", { name: "Leave" }).click();
      await guest.getByRole("heading", { name: "You are not in a team" }).waitFor();
      assert.deepEqual(guest.problems, []);
      await guest.context().close();

      // All of it is in the audit, and can be taken out of it.
      await settings(page, "audit");
      const entries = page.getByRole("list", { name: "Entries, newest first" });
      await entries.getByText(`ada-${size}@example.com`).first().waitFor();
      const change = entries.getByRole("listitem").filter({ hasText: "changed member" }).first();
      await change.locator("summary").click();
      await change.getByText("member.update").waitFor();
      await shot(page, `audit-${colorScheme}-${size}`);
      // The open section is to be seen, on a phone in a strip of many.
      const section = await page.getByRole("navigation", { name: "Settings" }).locator("[aria-current=page]").boundingBox();
      assert.ok(section.x >= 0 && section.x + section.width <= page.viewportSize().width, `the open section lies at ${section.x}`);
      assert.deepEqual(await axe(page), []);
      await page.getByLabel("Action").fill("member.update");
      await page.getByRole("button", { name: "Show" }).click();
      await page.waitForFunction(() => {
        const items = [...document.querySelectorAll('ul[aria-label^="Entries"] > li')];
        return items.length > 0 && items.every((li) => li.textContent.includes("changed member"));
      });
      const download = page.waitForEvent("download");
      await page.getByRole("link", { name: "Export CSV" }).click();
      const csv = readFileSync(await (await download).path(), "utf8");
      assert.match(csv, /^time,seq,/);
      assert.match(csv, /member\.update/);
      assert.doesNotMatch(csv, /invite\./, "the filters hold for the file, too");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }

  for (const [size, colorScheme, viewport] of [
    ["wide", "light", { width: 1440, height: 900 }],
    ["phone", "dark", { width: 390, height: 844 }],
  ]) {
    test(`an invitation is found in the app, declined and accepted, ${size}`, async () => {
      const email = `cy-${size}@example.com`;
      execFileSync(join_(root, "bin/parawork"), ["admin", "create-user", "--config", join_(instance.dir, "config.json"), "--email", email, "--name", `Cy ${size}`, "--password-stdin"], { input: `${password}\n` });
      await instance.api("POST", `/teams/${instance.team}/members`, { email, role: "viewer" });
      const cy = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await cy.goto(`${instance.url}/login`);
      await cy.getByLabel(/e-?mail/i).fill(email);
      await cy.getByLabel(/password/i).fill(password);
      await cy.getByRole("button", { name: /sign in/i }).click();
      await cy.getByRole("heading", { name: "You are not in a team" }).waitFor();
      await cy.getByRole("list", { name: "Invitations" }).getByText("Harbour, as a viewer").waitFor();
      await shot(cy, `invitation-${colorScheme}-${size}`);
      assert.deepEqual(await axe(cy), []);
      await cy.getByRole("button", { name: "Decline to join Harbour" }).click();
      await cy.getByRole("alertdialog").getByRole("button", { name: "Decline" }).click();
      await cy.getByRole("list", { name: "Invitations" }).waitFor({ state: "detached" });
      await instance.api("POST", `/teams/${instance.team}/members`, { email, role: "member" });
      await cy.reload();
      await cy.getByRole("button", { name: "Join Harbour", exact: true }).click();
      await cy.waitForURL(new RegExp(`/${instance.team}/`));

      // Who is in a team already finds the next one in the menu of teams, and in the settings.
      await instance.api("POST", "/teams", { name: `Pier ${size}` });
      await instance.api("POST", `/teams/pier-${size}/members`, { email, role: "member" });
      await cy.reload();
      await cy.getByRole("button", { name: "Harbour 1 invitation: switch to another team" }).click();
      await shot(cy, `invitation-menu-${colorScheme}-${size}`);
      await cy.getByRole("menuitem", { name: `Pier ${size} invites you` }).click();
      await cy.getByRole("heading", { name: "Invitations" }).waitFor();
      await shot(cy, `invitation-profile-${colorScheme}-${size}`);
      assert.deepEqual(await axe(cy), []);
      await cy.getByRole("button", { name: `Join Pier ${size}`, exact: true }).focus();
      await cy.keyboard.press("Enter");
      await cy.waitForURL(new RegExp(`/pier-${size}/`));
      assert.deepEqual(cy.problems, []);
      await cy.context().close();
    });
  }

  test("somebody reads German", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await settings(page, "appearance");
    await page.getByRole("group", { name: "Language" }).getByRole("button", { name: "Deutsch" }).click();
    await page.getByRole("group", { name: "Sprache" }).getByRole("button", { name: "Deutsch", pressed: true }).waitFor();
    assert.equal(await page.locator("html").getAttribute("lang"), "de");
    await page.getByRole("link", { name: "Posteingang" }).first().waitFor();
    assert.deepEqual(await axe(page, []), [], "accessibility in German");
    await page.getByRole("group", { name: "Sprache" }).getByRole("button", { name: "English" }).click();
    await page.getByRole("group", { name: "Language" }).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("tokens name what made them, and end with the password unless they are kept", async () => {
    const page = await newPage(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
    await signIn(page, instance, password);
    const made = await instance.api("POST", "/me/tokens", { name: "Heir" });
    await settings(page, "tokens");
    const list = page.getByRole("list", { name: "Your tokens" });
    await list.getByRole("listitem").filter({ hasText: "Heir" }).getByText(/by the token/).waitFor();
    await page.getByLabel("Name", { exact: true }).fill("Nightly");
    await page.getByRole("button", { name: "Create token" }).click();
    const nightly = list.getByRole("listitem").filter({ hasText: "Nightly" });
    await nightly.getByText(/in Chrome on/).waitFor();
    await shot(page, "tokens-dark-phone");
    assert.deepEqual(await axe(page), []);
    const works = async (token) => (await fetch(`${instance.url}/api/v1/me`, { headers: { Authorization: `Bearer ${token}` } })).status;
    assert.equal(await works(made.value), 200);

    await settings(page, "security");
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByLabel("Current password").fill(password);
    await page.getByLabel("New password").fill(other);
    await page.getByLabel(/^Keep my \d API tokens/).check();
    await shot(page, "security-dark-phone");
    assert.deepEqual(await axe(page), []);
    await page.getByRole("button", { name: "Change password", exact: true }).click();
    await page.getByText("Password changed", { exact: true }).first().waitFor();
    assert.equal(await works(made.value), 200, "kept");

    // All sign-ins: the box says that tokens end, too. The instance's own token has to go on.
    const elsewhere = await newPage(browser);
    await signIn(elsewhere, instance, other);
    await page.reload();
    await page.getByRole("button", { name: "End all others" }).click();
    await page.getByRole("alertdialog").getByLabel(/^Keep the \d API tokens/).check();
    await shot(page, "end-others-dark-phone");
    await page.getByRole("alertdialog").getByRole("button", { name: "End them" }).click();
    await page.getByText("All other sign-ins were ended", { exact: true }).first().waitFor();
    assert.equal(await works(made.value), 200, "kept");
    await elsewhere.context().close();

    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByLabel("Current password").fill(other);
    await page.getByLabel("New password").fill(password);
    await page.getByLabel(/^Keep my \d API tokens/).waitFor();
    await page.getByLabel(/^Keep my \d API tokens/).check();
    await page.getByRole("button", { name: "Change password", exact: true }).click();
    await page.getByText("Password changed", { exact: true }).first().waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("somebody who has an account, several teams and a quick way between them", async () => {
    const page = await newPage(browser, { colorScheme: "light" });
    await signIn(page, instance, password);
    await settings(page, "teams");
    await page.getByRole("button", { name: "New team" }).click();
    await page.getByLabel("Name").fill("Lighthouse");
    await page.getByRole("button", { name: "Create team" }).click();
    await page.getByRole("list", { name: "Teams" }).getByText("Lighthouse", { exact: true }).waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByRole("button", { name: "Harbour: switch to another team" }).click();
    await page.getByRole("menuitemradio", { name: "Lighthouse" }).click();
    await page.waitForURL(/\/lighthouse\//);
    await page.getByRole("button", { name: /^Command palette/ }).click();
    await page.getByPlaceholder(/^A workspace, .*or command$/).fill("harbour");
    await page.getByRole("option", { name: /Switch to Harbour/ }).click();
    await page.waitForURL(new RegExp(`/${instance.team}/`));

    // Who is signed out signs in first and comes back to the invite.
    const made = await instance.api("POST", "/teams/lighthouse/invites", { role: "admin" });
    const link = await invite(page, "viewer", "bo@example.com");
    const bo = await newPage(browser);
    await join(bo, link, "Bo", "");
    await bo.context().clearCookies();
    await bo.goto(made.url);
    await bo.getByRole("link", { name: "Sign in and join" }).click();
    await bo.getByRole("heading", { name: "Sign in" }).waitFor(); // the page before has fields of the same names
    await bo.getByLabel(/e-?mail/i).fill("bo@example.com");
    await bo.getByLabel(/password/i).fill(other);
    await bo.getByRole("button", { name: /sign in/i }).click();
    await bo.getByRole("button", { name: "Join as Bo" }).click();
    await bo.waitForURL(/\/lighthouse\//);
    await bo.getByRole("button", { name: "Lighthouse: switch to another team" }).waitFor();

    // A role given by hand, refused to who may not: told which right is missing.
    const own = await bo.evaluate(async (team) => {
      const r = await fetch(`/api/v1/teams/${team}/audit`);
      return { status: r.status, body: await r.json() };
    }, instance.team);
    assert.equal(own.status, 403);
    assert.match(own.body.message, /read the audit/);

    // An operator suspends: every page of theirs ends; restored, they sign in again.
    await settings(page, "users");
    const row = page.getByRole("list", { name: "Users" }).getByRole("listitem").filter({ hasText: "bo@example.com" });
    await row.getByText("Harbour (viewer), Lighthouse (admin)").waitFor();
    await shot(page, "users-light-wide");
    assert.deepEqual(await axe(page), []);
    await row.getByRole("button", { name: "More actions for Bo" }).click();
    await page.getByRole("menuitem", { name: "Suspend" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Suspend" }).click();
    await row.getByText("suspended").waitFor();
    await bo.goto(`${instance.url}/lighthouse/settings/members`);
    await bo.waitForURL(/\/login/);
    await row.getByRole("button", { name: "Restore Bo" }).click();
    await row.getByRole("button", { name: "More actions for Bo" }).waitFor();
    await row.getByRole("button", { name: "Password link for Bo" }).click();
    await page
      .getByRole("status")
      .filter({ hasText: "to choose a password" })
      .getByText(/\/reset#/)
      .waitFor();
    await bo.context().close();

    // A team's, too.
    await settings(page, "teams");
    const team = page.getByRole("list", { name: "Teams" }).getByRole("listitem").filter({ hasText: "Lighthouse" });
    await team.getByRole("button", { name: "Suspend Lighthouse" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Suspend" }).click();
    await team.getByRole("button", { name: "Restore Lighthouse" }).click();
    await team.getByRole("button", { name: "Suspend Lighthouse" }).waitFor();

    await settings(page, "server-audit");
    const entries = page.getByRole("list", { name: "Entries, newest first" });
    await entries.getByText("signed in").first().waitFor();
    await page.getByLabel("Action").fill("user.suspend");
    await page.getByRole("button", { name: "Show" }).click();
    await entries.getByText("suspended user").waitFor();
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("models: rules of a team, prices and the gateway of an operator", async () => {
    for (const [colorScheme, viewport] of [
      ["light", { width: 1440, height: 900 }],
      ["dark", { width: 390, height: 844 }],
    ]) {
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await signIn(page, instance, password);
      await settings(page, "models");
      await page.getByRole("heading", { name: "Recent requests" }).waitFor();
      if (colorScheme === "light") {
        await page.getByRole("button", { name: "Add a rule" }).click();
        await page.getByLabel("Model", { exact: true }).fill("claude-*");
        await page.getByLabel("Requests per minute").fill("0");
        await page.getByText("Enter a whole number above 0").waitFor();
        await page.getByLabel("Requests per minute").fill("60");
        await page.getByRole("button", { name: "Save the rules" }).click();
        await page.getByText("It applies within seconds").first().waitFor();
      }
      await page.reload();
      await page.getByLabel("Model", { exact: true }).waitFor();
      assert.equal(await page.getByLabel("Requests per minute").inputValue(), "60");
      assert.deepEqual(await axe(page), []);
      await shot(page, `models-${colorScheme}`);

      await settings(page, "gateway");
      const prices = page.getByRole("region", { name: "Prices", exact: true });
      await prices.getByRole("rowheader", { name: "claude-opus-4-8", exact: true }).waitFor();
      if (colorScheme === "light") {
        const form = page.getByRole("form", { name: "New price" });
        await form.getByLabel("Model").fill("instance-model");
        await form.getByLabel("Input").fill("0.125");
        await form.getByLabel("Output").fill("1.5");
        await form.getByRole("button", { name: "Add price" }).click();
        await prices.getByRole("rowheader", { name: "instance-model", exact: true }).waitFor();
      }
      await page.getByLabel("Find a model").fill("instance");
      await prices.getByRole("cell", { name: "$0.125", exact: true }).first().waitFor();
      assert.deepEqual(await axe(page), []);
      await shot(page, `gateway-${colorScheme}`);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
  });
});
