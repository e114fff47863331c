// Measures the web app in a real Chromium: node page.mjs '{"url":…,"email":…,"password":…,"page":"/team/w/KEY","what":"diff","runs":5}'.
// Prints one JSON object. The program beside it (page.go) makes what is shown, and says what was asked.
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../e2e/package.json", import.meta.url))("playwright-core");
const ask = JSON.parse(process.argv[2]);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** A page of a person who has just come: nothing is cached. */
async function fresh() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, bypassCSP: true });
  const r = await context.request.post(`${ask.url}/api/v1/login`, {
    headers: { Origin: ask.url },
    data: { email: ask.email, password: ask.password },
  });
  if (!r.ok()) throw new Error(`login: ${r.status()} ${await r.text()}`);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (e) => console.error(`page error: ${e.message}`));
  if (process.env.BENCH_VERBOSE) page.on("console", (m) => console.error(m.text()));
  return page;
}

/** Milliseconds from a click until what `there` looks for is painted. `there` is JavaScript that says whether it is. */
const painted = (page, click, there) =>
  page.evaluate(
    ([click, there]) => {
      const el = new Function(`return ${click}`)();
      const is = new Function(`return ${there}`);
      if (!el) throw new Error(`nothing to click: ${click}`);
      return new Promise((resolve, reject) => {
        const from = performance.now();
        const look = () => {
          if (performance.now() - from > 60_000) reject(new Error(`not there after 60 s: ${there}`));
          // The frame this runs before holds it: it is painted when the frame is done.
          else if (is()) setTimeout(() => resolve(performance.now() - from));
          else requestAnimationFrame(look);
        };
        el.click();
        requestAnimationFrame(look);
      });
    },
    [click, there],
  );

const TAB = (name) => `[...document.querySelectorAll("a,button,[role=tab]")].find((e) => e.textContent.trim().startsWith("${name}"))`;
// A screen full of lines.
const LINES = `document.querySelectorAll(".diff .diff-line").length >= 20`;
const SETTLED = 2_500; // ms: the page was opened, and looked at

const open = async (page) => {
  await page.goto(`${ask.url}${ask.page}`);
  await page.waitForFunction(`Boolean(${TAB("Changes")})`);
  await page.waitForTimeout(SETTLED);
};

/** Bytes the page holds on to: objects, elements and the bytes of diffs. */
async function heap(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  const u = await cdp.send("Runtime.getHeapUsage");
  await cdp.detach();
  return u.usedSize + (u.embedderHeapUsedSize ?? 0) + (u.backingStorageSize ?? 0);
}

const what = {
  /** A click on Changes: the first in a fresh page, then again after another tab was shown. */
  async diff() {
    const out = { cold: [], warm: [], heap: 0, steps: [] };
    for (let run = 0; run < ask.runs; run++) {
      const page = await fresh();
      await open(page);
      const before = await heap(page);
      const from = await page.evaluate("performance.now()");
      out.cold.push(await painted(page, TAB("Changes"), LINES));
      out.steps.push(
        await page.evaluate(
          (from) =>
            performance
              .getEntriesByType("resource")
              .filter((e) => e.responseEnd >= from)
              .map((e) => `${e.name.replace(/.*\//, "").slice(0, 40)} ${Math.round(e.startTime - from)}-${Math.round(e.responseEnd - from)}`),
          from,
        ),
      );
      if (ask.all) await page.waitForFunction(`document.querySelector(".diff")?.dataset.loaded >= ${ask.all}`);
      for (let again = 0; again < 2; again++) {
        await painted(page, TAB("Terminal"), `!document.querySelector(".diff")`);
        await page.waitForTimeout(500);
        out.warm.push(await painted(page, TAB("Changes"), LINES));
      }
      out.heap = Math.max(out.heap, (await heap(page)) - before);
      await page.context().close();
    }
    return out;
  },
  /** One large file that is folded at first: a click on what opens it. */
  async unfold() {
    const out = { cold: [], heap: 0 };
    for (let run = 0; run < ask.runs; run++) {
      const page = await fresh();
      await open(page);
      const before = await heap(page);
      const SHOW = `[...document.querySelectorAll(".diff button")].find((e) => /^Show it/.test(e.textContent.trim()))`;
      await painted(page, TAB("Changes"), `Boolean(${SHOW})`);
      await page.waitForTimeout(500);
      out.cold.push(await painted(page, SHOW, LINES));
      await page.waitForTimeout(2_000);
      out.heap = Math.max(out.heap, (await heap(page)) - before);
      await page.context().close();
    }
    return out;
  },
  /** Scrolls a list through, a step each frame: how long frames took, and how long the page itself worked on each. */
  async scroll() {
    const out = { frames: 0, late: 0, worst: 0, work: 0 };
    for (let run = 0; run < ask.runs; run++) {
      const page = await fresh();
      await open(page);
      await painted(page, TAB("Changes"), `document.querySelectorAll("${ask.rows}").length >= 10`);
      await page.waitForTimeout(2_000);
      const cdp = await page.context().newCDPSession(page);
      await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
      const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1e3;
      const was = await busy();
      const took = await page.evaluate(
        ([list, frames]) =>
          new Promise((resolve) => {
            const el = document.querySelector(list);
            const step = Math.max(40, Math.ceil((el.scrollHeight - el.clientHeight) / frames));
            const out = [];
            let last;
            const next = (now) => {
              if (last !== undefined) out.push(now - last);
              last = now;
              el.scrollTop += step;
              if (out.length < frames) requestAnimationFrame(next);
              else resolve(out);
            };
            requestAnimationFrame(next);
          }),
        [ask.list, ask.frames],
      );
      out.work += (await busy()) - was;
      out.frames += took.length;
      out.late += took.filter((t) => t > 16.7 * 1.5).length; // one was left out
      out.worst = Math.max(out.worst, ...took);
      await page.context().close();
    }
    return out;
  },
  /** A click on Merge. */
  async merge() {
    const out = { cold: [], warm: [] };
    for (let run = 0; run < ask.runs; run++) {
      const page = await fresh();
      await open(page);
      out.cold.push(await painted(page, TAB("Merge"), ask.there));
      await painted(page, TAB("Terminal"), `!(${ask.there})`);
      await page.waitForTimeout(500);
      out.warm.push(await painted(page, TAB("Merge"), ask.there));
      await page.context().close();
    }
    return out;
  },
};

try {
  console.log(JSON.stringify(await what[ask.what]()));
} finally {
  await browser.close();
}
