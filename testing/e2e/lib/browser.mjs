// A real Chromium, watched: page errors, console errors and CSP violations fail the test that saw them.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { root } from "./instance.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const haveChromium = existsSync(executablePath);
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shots = join(root, "testing/e2e/artifacts");

/** Starts Chromium. `extra` are more arguments, such as --disable-3d-apis to have terminals drawn as elements a test can read. */
export async function launch(extra = []) {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", ...extra],
  });
}

/**
 * A page in a context of its own; `page.problems` collects what went wrong in it. It has no service worker, whose requests a test could
 * neither see nor answer, unless it asks for one.
 */
export async function newPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, serviceWorkers: "block", ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(`page error: ${e.message}`));
  page.on("console", (m) => {
    const text = m.text();
    if (m.type() !== "error" && !/Content Security Policy/.test(text)) return;
    // Answers the app expects and handles; offline attempts while a test has killed the server.
    if (/status of (401|404|409|412)|ERR_CONNECTION|WebSocket connection|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|ERR_SOCKET|status of 503/.test(text)) return;
    page.problems.push(`console: ${text}`);
  });
  page.setDefaultTimeout(60_000);
  return page;
}

/** Has the page send each read as a request of its own, for tests that follow or answer them: as with a server that has no batches. */
export const unbatched = (page) => page.route("**/api/v1/batch", (route) => route.fulfill({ status: 404 }));

/** WCAG 2.0 to 2.2 A/AA violations of the page as it stands. */
export async function axe(page, exclude = []) {
  await page.evaluate(axeSource);
  return page.evaluate(async (exclude) => {
    // What fades in has its colours only when it has done so.
    const ends = (a) => a.effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY;
    await Promise.all(document.getAnimations().filter(ends).map((a) => a.finished.catch(() => {})));
    const r = await globalThis.axe.run({ exclude: exclude.map((s) => [s]) }, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"] });
    return r.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")} (${v.nodes.length})`);
  }, exclude);
}

export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}

/** Signs in through the screen. */
export async function signIn(page, instance, password, email = "mika@example.com") {
  await page.goto(`${instance.url}/login`);
  await page.getByLabel(/e-?mail/i).fill(email);
  await page.getByLabel(/password/i).fill(password);
  await page.getByRole("button", { name: /sign in/i }).click();
  await page.waitForURL((u) => !u.pathname.startsWith("/login"));
}
