// Signing in with a provider account: a real OpenID Connect provider and a GitHub, in a real browser.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, signIn } from "../lib/browser.mjs";
import { Instance, issuer, password, until } from "../lib/instance.mjs";

const client = { ID: "parawork", Secret: "the secret of the client" };

describe("sign-in with a provider", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let corp;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    corp = await issuer();
    const provider = { clientId: client.ID, clientSecret: client.Secret };
    instance = await Instance.start({
      outgoing: { allow: ["127.0.0.0/8"] },
      accounts: {
        providers: {
          corp: {
            ...provider,
            name: "Corp",
            issuer: corp.url,
            createUsers: true,
            groups: { engineers: [{ team: "harbour", role: "member" }] },
          },
          github: {
            ...provider,
            name: "GitHub",
            kind: "github",
            baseUrl: `${corp.url}/github`,
            allowedOrganizations: ["engines"],
          },
        },
      },
    });
    await instance.setUp();
    await corp.tell("client", {
      ...client,
      Redirects: ["corp", "github"].map((p) => `${instance.url}/api/v1/login/providers/${p}/callback`),
    });
    await corp.tell("person", {
      Subject: "1",
      Email: "ada@example.com",
      Verified: true,
      Name: "Ada",
      Claims: { groups: ["engineers"] },
    });
    await corp.tell("person", { Subject: "2", Email: "eve@example.com", Verified: false, Name: "Eve" });
    await corp.tell("person", {
      Subject: "3",
      Email: "mika@example.com",
      Verified: true,
      Name: "Mika",
      Login: "mika",
      Orgs: ["engines"],
    });
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    corp?.stop();
  });

  /** From the sign-in page to the provider and its answer. */
  const go = async (page, provider, answer) => {
    await page.goto(`${instance.url}/login`);
    await page.getByRole("link", { name: `Continue with ${provider}` }).click();
    await page.getByRole("button", { name: answer }).click();
  };
  const inside = (page) => page.waitForURL((u) => u.origin === instance.url && !u.pathname.startsWith("/login"));
  const me = (page) => page.evaluate(() => fetch("/api/v1/me").then((r) => r.json()));
  const close = async (page) => {
    assert.deepEqual(page.problems, []);
    await page.context().close();
  };

  test("sign in with a provider: a user is made, groups say the team, nothing of the way is left in the address", async () => {
    const page = await newPage(browser);
    await go(page, "Corp", "Continue as Ada");
    await inside(page);
    const ada = await me(page);
    assert.equal(ada.user.email, "ada@example.com");
    assert.deepEqual(
      ada.teams.map((t) => [t.slug, t.role]),
      [["harbour", "member"]],
    );
    assert.doesNotMatch(page.url(), /code=|state=/);
    const cookies = (await page.context().cookies(instance.url)).filter((c) => c.name.includes("parawork"));
    assert.ok(cookies.length > 0 && cookies.every((c) => c.httpOnly), "a cookie can be read by pages");
    assert.doesNotMatch(instance.log.join(""), /code=|state=/);

    // Taken out of the group there: out of the team here, at the next sign-in.
    await corp.tell("person", {
      Subject: "1",
      Email: "ada@example.com",
      Verified: true,
      Name: "Ada",
      Claims: { groups: [] },
    });
    await page.context().clearCookies();
    await go(page, "Corp", "Continue as Ada");
    await inside(page);
    assert.deepEqual((await me(page)).teams, []);
    await close(page);
  });

  test("a refused user sees why", async () => {
    const page = await newPage(browser);
    await go(page, "Corp", "Deny");
    await page.getByText("Corp denied the sign-in, or you cancelled it").waitFor();
    assert.deepEqual(await axe(page), []);
    await go(page, "Corp", "Continue as Eve");
    await page.getByText("Corp has not verified your email address").waitFor();
    await go(page, "Corp", "Continue as Mika"); // has a user with that address, which is not linked
    await page.getByText("A user with your email address already exists").waitFor();
    await go(page, "GitHub", "Continue as Ada");
    await page.getByText("You are not in an organization that may sign in").waitFor();
    assert.equal((await me(page)).code, "signed_out");
    await close(page);
  });

  test("an answer that was begun in another browser signs nobody in", async () => {
    // The attacker's own way, up to the address that the provider would lead their browser to.
    const begun = await fetch(`${instance.url}/api/v1/login/providers/corp`, { redirect: "manual" });
    const page = await (await fetch(begun.headers.get("location"))).text();
    const body = new URLSearchParams({ ask: page.match(/name="ask" value="([^"]+)"/)[1], subject: "1" });
    const decided = await fetch(`${corp.url}/decide`, { method: "POST", body, redirect: "manual" });
    const answer = decided.headers.get("location");
    assert.match(answer, /[?&]code=/);
    const victim = await newPage(browser);
    await victim.goto(answer);
    await victim.getByText("was started in another browser").waitFor();
    assert.equal((await me(victim)).code, "signed_out");
    await close(victim);
  });

  test("link an account, sign in with it, unlink it", async () => {
    const page = await newPage(browser);
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/settings/security`);
    await page.getByRole("button", { name: "Link GitHub" }).click();
    await page.getByRole("button", { name: "Continue as Mika" }).click();
    await page.getByRole("button", { name: "Unlink GitHub" }).waitFor();
    assert.deepEqual(await axe(page), []);
    const other = await newPage(browser);
    await go(other, "GitHub", "Continue as Mika");
    await inside(other);
    assert.equal((await me(other)).user.email, "mika@example.com");
    await page.getByRole("button", { name: "Unlink GitHub" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Unlink" }).click();
    await page.getByRole("button", { name: "Link GitHub" }).waitFor();
    await until("the session it began has ended", async () => (await me(other)).code === "signed_out");
    await close(page);
    await other.context().close();
  });
});
