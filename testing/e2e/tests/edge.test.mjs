// The browser's edge: links to watch without a login, pages of attackers on another port, and a search for secrets in everything a
// run leaves behind.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, until } from "../lib/instance.mjs";

/** A code of an authenticator app: RFC 6238 with SHA-1, 30 s and 6 digits. */
function totp(secret, at = Date.now()) {
  const bits = [...secret].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => Number.parseInt(b, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const mac = createHmac("sha1", key).update(counter).digest();
  const n = mac.readUInt32BE(mac[mac.length - 1] & 15) & 0x7fffffff;
  return String(n % 1_000_000).padStart(6, "0");
}

/** Calls the API from a page of the app, with its cookies. */
const call = (page, method, path, body) =>
  page.evaluate(
    async ([method, path, body]) => {
      const r = await fetch(`/api/v1${path}`, { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) });
      const text = await r.text();
      return { status: r.status, body: text.startsWith("{") ? JSON.parse(text) : text };
    },
    [method, path, body],
  );

describe("the edge", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let instance;
  let browser;
  let attacker;
  let session;
  let workspace;
  const secrets = new Map(); // name to value: what must be found nowhere
  const heard = []; // what pages were sent over sockets of events, and the addresses they asked for
  const listen = (page) => {
    page.on("request", (r) => heard.push(`${r.url()} ${r.headers().referer ?? ""}`));
    page.on("websocket", (w) => {
      heard.push(w.url());
      w.on("framereceived", (f) => heard.push(f.payload.toString("latin1")));
    });
  };

  before(async () => {
    if (!haveChromium) return;
    instance = await Instance.start({ log: { level: "debug" } });
    await instance.setUp();
    secrets.set("the setup link's token", new URL(instance.setupLink).searchParams.get("token") ?? new URL(instance.setupLink).hash.slice(1));
    secrets.set("an API token", instance.token);
    secrets.set("the password", password);
    workspace = await instance.workspace("Shown");
    session = await instance.api("POST", `/workspaces/${workspace.id}/sessions`, { agent: "command", argv: ["sh", "-c", "stty -echo; echo ready; while read l; do echo got $l; done"], cols: 80, rows: 24 });
    browser = await launch(["--disable-3d-apis"]); // terminals drawn as elements
    const pages = new Map();
    attacker = createServer((req, res) => {
      res.writeHead(200, { "Content-Type": "text/html" });
      res.end(pages.get(new URL(req.url, "http://x").pathname) ?? "<!doctype html><title>attacker</title>");
    });
    attacker.pages = pages;
    await new Promise((ok) => attacker.listen(0, "127.0.0.1", ok));
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    attacker?.close();
  });

  for (const [size, colorScheme, viewport] of [
    ["wide", "dark", { width: 1280, height: 800 }],
    ["phone", "light", { width: 390, height: 844 }],
  ]) {
    test(`a session is watched by a link, ${size}`, async () => {
      const page = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      listen(page);
      await signIn(page, instance, password);
      await page.goto(`${instance.url}/${instance.team}/w/${workspace.key}?session=${session.id}`);
      await page.getByRole("button", { name: "More actions for this workspace" }).click();
      await page.getByRole("menuitem", { name: /Share view-only link/ }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill(`Ann ${size}`);
      await dialog.getByRole("button", { name: "Create link" }).click();
      await dialog.getByText("It is not shown again.").waitFor();
      const url = await dialog.getByText(/\/watch#pw_watch_/).first().textContent();
      secrets.set(`the link's token, ${size}`, new URL(url).hash.slice(1));
      assert.deepEqual(await axe(page, [".xterm"]), []);
      await shot(page, `links-made-${size}`);
      await dialog.getByRole("button", { name: "Done" }).click();

      const guest = await newPage(browser, { colorScheme, viewport, reducedMotion: "reduce" });
      await guest.goto(url);
      await guest.getByText("View only.").waitFor();
      await until("the guest sees the terminal", async () => (await guest.locator(".xterm-rows").textContent()).includes("ready"));
      assert.equal(new URL(guest.url()).hash, "", "the secret stands in the address");
      const history = await (await guest.context().newCDPSession(guest)).send("Page.getNavigationHistory");
      assert.deepEqual(history.entries.map((e) => e.url).filter((u) => u.includes("pw_watch_")), [], "the secret stands in the history");
      assert.equal(await guest.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)).then((s) => s.includes("pw_watch_")), false);
      assert.deepEqual(await axe(guest, [".xterm"]), []);
      await shot(guest, `links-guest-${size}`);
      // What is typed here goes nowhere; what is printed comes.
      await guest.locator(".xterm").click();
      await guest.keyboard.type(`guest-${size}\n`);
      await instance.api("POST", `/sessions/${session.id}/input`, { text: `owner-${size}\r` });
      await until("the guest sees what was printed", async () => (await guest.locator(".xterm-rows").textContent()).includes(`got owner-${size}`));
      assert.ok(!(await instance.output(session.id)).includes(`guest-${size}`), "a guest typed");
      if (size === "wide") await dialog.getByText("1 watching").waitFor();
      // A reload needs no secret; nothing else opens.
      await guest.reload();
      await until("it is back", async () => (await guest.locator(".xterm-rows").textContent()).includes(`got owner-${size}`));
      assert.equal((await call(guest, "GET", "/me")).status, 401);

      // Revoked in the team's list, the page ends at once.
      await page.goto(`${instance.url}/${instance.team}/settings/links`);
      await page.getByText(`Ann ${size}`).waitFor();
      assert.deepEqual(await axe(page), []);
      await shot(page, `links-list-${size}`);
      await page.getByRole("button", { name: `Revoke the link: Ann ${size}` }).click();
      await guest.getByRole("heading", { name: "This link has expired" }).waitFor();
      assert.deepEqual(await axe(guest), []);
      await guest.goto(url);
      await guest.getByRole("heading", { name: "This link has expired" }).waitFor();
      assert.deepEqual(page.problems, []);
      assert.deepEqual(guest.problems.filter((p) => !/status of 410/.test(p)), []);
      await guest.context().close();
      await page.context().close();
    });
  }

  // 127.0.0.1 on another port is the same site, where SameSite keeps no cookie back; localhost is another one.
  for (const name of ["127.0.0.1", "localhost"]) {
    test(`pages of an attacker on ${name} change and read nothing`, async () => {
      const page = await newPage(browser);
      await signIn(page, instance, password);
      const before = { tokens: (await instance.api("GET", "/me/tokens")).items.length, me: (await call(page, "GET", "/me")).body.user.id, sessions: (await instance.api("GET", `/workspaces/${workspace.id}/sessions`)).items.length };
      const at = `http://${name}:${attacker.address().port}`;
      const ws = instance.url.replace("http", "ws");
      const api = `${instance.url}/api/v1`;
      const form = (id, path, type, field, value) =>
        `<form id=${id} method=post action="${api}${path}" enctype="${type}" target=sink><input name='${field}' value='${value}'></form>`;
      attacker.pages.set(
        "/",
        `<!doctype html><title>attacker</title><iframe name=sink></iframe><iframe id=frame src="${instance.url}/${instance.team}/w"></iframe>
        ${form("token", "/me/tokens", "application/x-www-form-urlencoded", "name", "stolen")}
        ${form("plain", "/me/tokens", "text/plain", '{"name":"stolen","x":"', '"}')}
        ${form("login", "/login", "text/plain", '{"email":"eve@example.com","password":"eve eve eve eve","x":"', '"}')}
        ${form("session", `/workspaces/${workspace.id}/sessions`, "text/plain", '{"agent":"shell","x":"', '"}')}
        ${form("out", "/logout", "text/plain", "x", "y")}
        <script>
        globalThis.run = async () => {
          const out = {};
          const socket = (path) => new Promise((ok) => { const w = new WebSocket("${ws}/api/v1" + path); w.onopen = () => ok("open"); w.onerror = () => ok("refused"); });
          out.events = await socket("/teams/${instance.team}/events");
          out.terminal = await socket("/sessions/${session.id}/terminal");
          out.watch = await socket("/watch/terminal");
          const read = async (path, init) => { try { const r = await fetch("${api}" + path, { credentials: "include", ...init }); return r.type + " " + (await r.text()).length; } catch (e) { return "failed"; } };
          out.get = await read("/me/tokens");
          out.opaque = await read("/me/tokens", { mode: "no-cors" });
          out.json = await read("/me/tokens", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"name":"stolen"}' });
          out.sent = await read("/me/tokens", { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body: '{"name":"stolen"}' });
          out.gone = await read("/workspaces/${workspace.id}", { method: "DELETE" });
          const load = (tag, src) => new Promise((ok) => { const e = document.createElement(tag); e.onload = () => ok("loaded"); e.onerror = () => ok("refused"); e.src = src; document.body.append(e); });
          out.image = await load("img", "${api}/me/tokens");
          out.script = await load("script", "${api}/teams/${instance.team}/watch-links");
          out.users = await load("img", "${api}/instance/users");
          for (const f of document.forms) { f.submit(); await new Promise((ok) => { document.querySelector("iframe[name=sink]").onload = ok; }); }
          try { out.frame = document.getElementById("frame").contentWindow.document.title; } catch { out.frame = "refused"; }
          return out;
        };
        globalThis.open_ = () => { globalThis.other = window.open("${instance.url}/${instance.team}/w"); };
        </script>`,
      );
      await page.goto(`${at}/`);
      const from = instance.log.length;
      const got = await page.evaluate(() => globalThis.run());
      assert.deepEqual(got, { events: "refused", terminal: "refused", watch: "refused", get: "failed", opaque: got.opaque, json: "failed", sent: got.sent, gone: "failed", image: "refused", script: "refused", users: "refused", frame: "refused" });
      assert.ok(/^(failed|opaque 0)$/.test(got.opaque) && /^(failed|opaque 0)$/.test(got.sent), JSON.stringify(got));
      for (const frame of page.frames()) assert.ok(!frame.url().startsWith(instance.url) || !/workspaces|Shown/i.test(await frame.content()), `framed: ${frame.url()}`);
      // What pages of ours never ask for here was asked for by the attacker alone, and refused each time. An answer to
      // OPTIONS that allows nothing is a refusal.
      const asked = () => instance.log.slice(from).join("").split("\n").filter((line) => /msg=request .*method=(?!OPTIONS).*route=\S+(\/me\/tokens|watch-links|\/instance\/users) /.test(line));
      await until("the attacker's requests are in the log", () => asked().length >= 7);
      assert.deepEqual(asked().filter((line) => !/ status=40[0-9] /.test(line)), [], "the server served what an attacker fetched");

      // A window an attacker opened is not theirs to steer or to look into.
      const [opened] = await Promise.all([page.context().waitForEvent("page"), page.evaluate(() => globalThis.open_())]);
      await opened.waitForURL((u) => u.href.startsWith(instance.url));
      await until("the windows are parted", () => page.evaluate(() => globalThis.other.closed));
      assert.equal(await opened.evaluate(() => window.opener), null);

      assert.equal((await instance.api("GET", "/me/tokens")).items.length, before.tokens, "a token was made");
      assert.equal((await instance.api("GET", `/workspaces/${workspace.id}/sessions`)).items.length, before.sessions, "a session was started");
      await page.goto(`${instance.url}/login`);
      assert.equal((await call(page, "GET", "/me")).body.user?.id, before.me, "somebody else is signed in, or nobody");
      await page.context().close();
    });
  }

  test("no secret that was used is left anywhere", async () => {
    const page = await newPage(browser);
    listen(page);
    await signIn(page, instance, password);
    const ok = async (method, path, body) => {
      const r = await call(page, method, path, body);
      assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${r.body?.code}`);
      return r.body;
    };
    // Every kind of secret there is, made and used.
    secrets.set("a token of the page", (await ok("POST", "/me/tokens", { name: "leaks" })).value);
    secrets.set("a secret of the team", "s3cr3t-of-the-team-0123456789");
    await ok("POST", `/teams/${instance.team}/secrets`, { kind: "env", name: "LEAK_ME", value: secrets.get("a secret of the team") });
    secrets.set("an agent's key", "sk-ant-leak-0123456789abcdef");
    await ok("POST", "/me/agent-accounts", { agent: "claude-code", kind: "api_key", name: "leak", api_key: secrets.get("an agent's key") });
    const said = await ok("POST", `/workspaces/${workspace.id}/sessions`, { agent: "command", argv: ["sh", "-c", 'echo "it is $LEAK_ME"; sleep 1000'] });
    await until("the secret is printed, masked", async () => (await instance.output(said.id)).includes("it is "));
    const app = await ok("POST", "/me/totp");
    secrets.set("an authenticator's secret", app.secret);
    for (const [i, code] of (await ok("POST", "/me/totp/confirm", { code: totp(app.secret) })).recovery_codes.entries()) secrets.set(`recovery code ${i}`, code);
    const invite = await ok("POST", `/teams/${instance.team}/invites`, { role: "member" });
    secrets.set("an invite's token", new URL(invite.url).hash.slice(1));
    const accepted = await fetch(`${instance.url}/api/v1/invites/accept`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: new URL(invite.url).hash.slice(1), name: "Lea", email: "lea@example.com", password: "seven lamps over water" }) });
    assert.equal(accepted.status, 200, await accepted.clone().text());
    secrets.set("another's password", "seven lamps over water");
    const lea = (await accepted.json()).user.id;
    const reset = await ok("POST", `/instance/users/${lea}/reset-link`);
    secrets.set("a reset link's token", new URL(reset.url).hash.slice(1));
    const changed = await fetch(`${instance.url}/api/v1/password/reset`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: new URL(reset.url).hash.slice(1), password: "eight lamps over water" }) });
    assert.ok(changed.ok, await changed.text());
    secrets.set("a password that was reset", "eight lamps over water");
    // What goes wrong must not be written down either.
    await fetch(`${instance.url}/api/v1/login`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ email: "mika@example.com", password: "a wrong password of mine" }) });
    secrets.set("a wrong password", "a wrong password of mine");
    await fetch(`${instance.url}/api/v1/me`, { headers: { Authorization: "Bearer pw_user_wrongwrongwrong" } });
    secrets.set("a wrong token", "pw_user_wrongwrongwrong");
    await fetch(`${instance.url}/api/v1/me`, { headers: { "X-Request-Id": "forged\u00e9 level=ERROR" } }).catch(() => {});
    for (const c of await page.context().cookies()) if (c.value.length >= 20) secrets.set(`the cookie ${c.name}`, c.value);

    const forms = [...secrets].flatMap(([name, value]) => [[name, value], [`${name}, in base64`, Buffer.from(value).toString("base64").replace(/=+$/, "")], [`${name}, in an address`, encodeURIComponent(value)]]);
    const scan = (where, text) => {
      for (const [name, value] of forms) assert.ok(!text.includes(value), `${name} is in ${where}`);
    };

    // Every page of the app, as it stands.
    const of = `/${instance.team}`;
    const settings = ["profile", "notifications", "appearance", "agents", "tokens", "team", "team-agents", "links", "places", "metrics", "about"].map((s) => `${of}/settings/${s}`);
    for (const path of [`${of}/inbox`, `${of}/w`, `${of}/w/${workspace.key}?session=${said.id}`, `${of}/w/${workspace.key}?tab=history`, `${of}/w/${workspace.key}?tab=activity`, `${of}/p`, `${of}/machines`, `${of}/runs`, ...settings]) {
      await page.goto(instance.url + path);
      await page.getByRole("main").first().waitFor();
      await page.waitForLoadState("load");
      scan(`the page ${path}`, await page.evaluate(() => document.documentElement.outerHTML + [...document.querySelectorAll("input,textarea")].map((e) => e.value).join("\n") + document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href));
    }
    scan("the history of a tab", (await (await page.context().newCDPSession(page)).send("Page.getNavigationHistory")).entries.map((e) => e.url).join("\n"));
    scan("addresses, referrers and sockets", heard.join("\n"));
    scan("the audit", JSON.stringify([await instance.api("GET", `/teams/${instance.team}/audit?limit=200`), await instance.api("GET", "/instance/audit?limit=200")]));
    for (const path of [`/sessions/${said.id}/output?from=0`, `/sessions/${said.id}/screen`, `/sessions/${said.id}/journal`, "/me/tokens", `/teams/${instance.team}/secrets`, "/me/agent-accounts", `/teams/${instance.team}/watch-links`, `/workspaces/${workspace.id}/activity`]) scan(path, await (await instance.raw("GET", path)).text());
    await page.context().close();

    // The log, but for the line that prints the setup link for who started the server.
    scan("the log", instance.log.filter((line) => !/\/setup[?#]/.test(line)).join(""));
    assert.ok(!instance.log.join("").includes("forged"), "a forged request id is in the log");
    // Every file of the data folder, the database and its journal among them, but for what the sandboxes keep for themselves: there the
    // secret was given to be used, and what a program printed is masked on its way out.
    let files = 0;
    const walk = (dir) => {
      for (const name of readdirSync(dir)) {
        const path = join(dir, name);
        const s = lstatSync(path, { throwIfNoEntry: false });
        if (path === join(instance.data, "sandboxes")) continue;
        if (s?.isDirectory()) walk(path);
        else if (s?.isFile() && s.size < 64 << 20) {
          scan(path.slice(instance.data.length), readFileSync(path, "latin1"));
          files++;
        }
      }
    };
    walk(instance.data);
    assert.ok(files > 10, `only ${files} files were read`);
  });
});
