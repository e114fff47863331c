// Signing in with an OpenID Connect provider: a real one, small and strict, that the test starts.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { totp } from "../lib/factors.mjs";
import { Instance, issuer, password } from "../lib/instance.mjs";

const clientSecret = "of-the-client-0123456789";

describe("signing in elsewhere", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let corp;
  before(async () => {
    if (!haveChromium) return;
    corp = await issuer();
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] },
      accounts: {
        providers: {
          corp: {
            enabled: true, kind: "oidc", name: "Corp", issuer: corp.url, clientId: "parawork", clientSecret, allowedDomains: ["example.com"], createUsers: true,
            groupsClaim: "groups", groups: { engineers: [{ team: "harbour", role: "member" }] },
          },
        },
      },
    });
    await instance.setUp();
    await corp.serves({ ID: "parawork", Secret: clientSecret, Redirects: [`${instance.url}/api/v1/login/providers/corp/callback`] });
    for (const [Subject, Name, Email] of [["1", "Grace", "grace@example.com"], ["2", "Eve", "eve@other.example"], ["3", "Mika K", "mika.k@example.com"]])
      await corp.knows({ Subject, Name, Email, Verified: true, Claims: { groups: Subject === "1" ? ["engineers"] : [] } });
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    corp?.stop();
  });

  const goes = async (page, as) => {
    await page.goto(`${instance.url}/login?next=/${instance.team}/p`);
    await page.getByRole("link", { name: "Continue with Corp" }).click();
    await page.getByRole("button", { name: as }).click();
  };

  test("a refusal is shown as a message, and an accepted user joins the team of their group", async () => {
    const page = await newPage(browser);
    await goes(page, "Continue as Eve");
    await page.getByRole("alert").getByText(/in your domain may not sign in with Corp/).waitFor();
    assert.deepEqual(await axe(page), []);
    await shot(page, "sso-refused");
    await goes(page, "Deny");
    await page.getByRole("alert").getByText(/Corp denied the sign-in/).waitFor();
    await goes(page, "Continue as Grace");
    await page.waitForURL((u) => u.pathname === `/${instance.team}/p`);
    await page.getByRole("heading", { name: "Projects", exact: true }).waitFor();
    const me = await (await page.request.get(`${instance.url}/api/v1/me`)).json();
    assert.equal(me.user.email, "grace@example.com");
    assert.deepEqual(me.teams.map((t) => [t.slug, t.role]), [["harbour", "member"]]);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  test("an account is linked, asked for the second factor here, and unlinked", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/settings/security`);
    await page.getByRole("button", { name: "Set up an authenticator app" }).click();
    const secret = (await page.locator("code", { hasText: /^[A-Z2-7 ]{20,}$/ }).textContent()).replaceAll(" ", "");
    await page.getByLabel("Code from the app").fill(totp(secret));
    await page.getByRole("button", { name: "I have saved them" }).click();
    await page.getByRole("button", { name: "Link Corp" }).click();
    await page.getByRole("button", { name: "Continue as Mika K" }).click();
    const linked = page.getByRole("list", { name: "Linked accounts" });
    await linked.getByText("mika.k@example.com").waitFor();
    assert.equal(new URL(page.url()).pathname, `/${instance.team}/settings/security`);
    assert.deepEqual(await axe(page), []);

    await page.goto("about:blank"); // a page that notices the end of its login leaves by itself
    await page.request.post(`${instance.url}/api/v1/logout`);
    await goes(page, "Continue as Mika K");
    await page.getByLabel("Code from your authenticator app").fill(totp(secret, 1));
    await page.waitForURL((u) => u.pathname === `/${instance.team}/p`);
    const sessions = (await (await page.request.get(`${instance.url}/api/v1/me/login-sessions`)).json()).items;
    const now = sessions.find((s) => s.current);
    assert.deepEqual([now.factors, now.provider], [["sso", "totp"], "corp"]);

    await page.goto(`${instance.url}/${instance.team}/settings/security`);
    await page.getByText("by Corp and authenticator app").waitFor();
    await linked.getByRole("button", { name: "Unlink Corp" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Unlink" }).click();
    await page.getByRole("button", { name: "Link Corp" }).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
