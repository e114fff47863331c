// Connecting an application in the browser: sign in, allow or deny, and back to the program that asked.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot } from "../lib/browser.mjs";
import { Instance, password } from "../lib/instance.mjs";

describe("connecting an application", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let program; // listens where it is answered, as command line programs do
  let answers;
  before(async () => {
    if (!haveChromium) return;
    browser = await launch();
    instance = await Instance.start();
    await instance.setUp();
    answers = [];
    program = createServer((req, res) => {
      const url = new URL(req.url, "http://program");
      if (url.pathname === "/callback") {
        // Such programs send the browser on, to an address that nobody has registered.
        answers.push(url.searchParams);
        res.writeHead(302, { Location: `http://localhost:${program.address().port}/done` }).end();
        return;
      }
      res.writeHead(200, { "Content-Type": "text/html" }).end("<title>done</title><link rel=icon href=data:,>You can close this window.");
    }).listen(0, "127.0.0.1");
    await once(program, "listening");
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    program?.close();
  });

  const verifier = randomBytes(32).toString("base64url");
  /** Registers a program, and returns the address by which it asks for access. */
  const asks = async (name, redirect = `http://127.0.0.1:${program.address().port}/callback`, extra = {}) => {
    const meta = await (await fetch(`${instance.url}/.well-known/oauth-authorization-server`)).json();
    const made = await fetch(meta.registration_endpoint, { method: "POST", body: JSON.stringify({ client_name: name, redirect_uris: [redirect] }) });
    assert.equal(made.status, 201);
    const client = await made.json();
    const query = new URLSearchParams({
      response_type: "code",
      client_id: client.client_id,
      redirect_uri: redirect,
      state: `state of ${name}`,
      scope: "workspaces:read workspaces:write sessions:attach",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
      resource: `${instance.url}/mcp`,
      ...extra,
    });
    return { client: client.client_id, redirect, url: `${meta.authorization_endpoint}?${query}`, token: meta.token_endpoint };
  };
  const exchange = async (p, code) => {
    const body = new URLSearchParams({ grant_type: "authorization_code", client_id: p.client, code, code_verifier: verifier, redirect_uri: p.redirect });
    return (await fetch(p.token, { method: "POST", body })).json();
  };
  const check = async (page, name) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await shot(page, `connect-${name}-${colorScheme}`);
      assert.deepEqual(await axe(page), [], `${name}, ${colorScheme}: accessibility`);
    }
  };
  const reaches = async (token) =>
    (
      await fetch(`${instance.url}/mcp`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      })
    ).status;

  test("sign in, allow, see it in the settings, and revoke it", async () => {
    const page = await newPage(browser, { viewport: { width: 390, height: 844 } });
    const p = await asks("Claude <b>Code</b>");
    await page.goto(p.url);
    await page.getByLabel("E-mail").fill("mika@example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Claude <b>Code</b> asks for access to your account" }).waitFor();
    assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 3);
    await page.getByLabel(/^Sessions/).uncheck();
    await check(page, "ask-phone");
    await page.getByRole("button", { name: "Allow" }).click();
    await page.waitForURL((u) => u.pathname === "/done");
    const answer = answers.pop();
    assert.equal(answer.get("state"), "state of Claude <b>Code</b>");
    assert.equal(answer.get("iss"), instance.url);
    const tokens = await exchange(p, answer.get("code"));
    assert.equal(tokens.scope, "workspaces:read workspaces:write");
    assert.equal(await reaches(tokens.access_token), 200);

    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(`${instance.url}/${instance.team}/settings/tokens`);
    const row = page.getByRole("list", { name: "Connected applications" }).getByRole("listitem");
    await row.getByText("Claude <b>Code</b>").waitFor();
    await row.getByText(/connected .* used /).waitFor();
    await check(page, "settings");
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    assert.equal(await reaches(tokens.access_token), 401);

    // Deny, on a wide screen.
    const denied = await asks("Nosy");
    await page.goto(denied.url);
    await page.getByRole("heading", { name: /^Nosy asks/ }).waitFor();
    await check(page, "ask-wide");
    await page.getByRole("button", { name: "Deny" }).click();
    await page.waitForURL((u) => u.pathname === "/done");
    assert.equal(answers.pop().get("error"), "access_denied");

    // What is wrong is said here, and nobody is led to an address that anybody may have registered.
    const broken = await asks("Old", "https://client.example/callback", { code_challenge_method: "plain" });
    await page.goto(broken.url);
    await page.getByRole("alert").getByText(/must use PKCE/).waitFor();
    assert.equal(await page.getByRole("link", { name: "Go to client.example" }).count(), 1);
    await check(page, "refused");
    assert.deepEqual(page.problems.filter((x) => !/status of 400/.test(x)), []);
    await page.context().close();
  });

  test("a browser that was left open confirms first", async () => {
    const page = await newPage(browser);
    await page.goto(`${instance.url}/login`);
    await page.getByLabel("E-mail").fill("mika@example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL((u) => !u.pathname.startsWith("/login"));
    const p = await asks("Inspector");
    // Where the server leads somebody whose last proof is 15 minutes old.
    const next = p.url.slice(instance.url.length);
    await page.goto(`${instance.url}/confirm?${new URLSearchParams({ next })}`);
    await page.getByRole("dialog").getByLabel("Password").fill(password);
    await check(page, "confirm");
    await page.getByRole("dialog").getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("heading", { name: /^Inspector asks/ }).waitFor();
    await page.getByRole("button", { name: "Allow" }).click();
    await page.waitForURL((u) => u.pathname === "/done");
    assert.equal(await reaches((await exchange(p, answers.pop().get("code"))).access_token), 200);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
