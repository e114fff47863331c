// How a page feels on a slow machine: what blocks its start, and its frames while it scrolls. Times are of this machine; no test asserts them.

/**
 * Total blocking time on a CPU so many times as slow: ms beyond 50 of each task of the page after it first painted, until it has been quiet for
 * 2 s. A task counts by its processor time, so that other work on this machine does not.
 */
export async function blocking(page, url, ready, slower = 4) {
  const browser = page.context().browser();
  await browser.startTracing(page, { categories: ["toplevel", "loading", "blink.user_timing"] });
  await page.goto(url);
  await ready(page);
  await page.waitForTimeout(2_000);
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const paint = traceEvents.findLast((e) => e.name === "firstContentfulPaint");
  const begin = traceEvents.findLast((e) => e.name === "navigationStart" && e.pid === paint.pid && e.ts < paint.ts);
  const tasks = traceEvents.filter((e) => e.pid === paint.pid && e.tid === paint.tid && e.ph === "X" && /RunTask$/.test(e.name) && e.ts + (e.dur ?? 0) > paint.ts).sort((a, b) => a.ts - b.ts);
  let blocked = 0;
  let longest = 0;
  let end = 0;
  for (const t of tasks) {
    if (t.ts < end || t.tdur === undefined) continue; // part of the one before, or under way when the recording ended
    end = t.ts + t.dur;
    const took = (t.tdur / 1_000) * slower;
    blocked += Math.max(0, took - 50);
    longest = Math.max(longest, took);
  }
  return { blocked: Math.round(blocked), longest: Math.round(longest), paint: Math.round((paint.ts - begin.ts) / 1_000) };
}

/** Scrolls what scrolls below `selector` by a wheel for `ms` and measures the time between frames. */
export async function scrolling(page, selector, ms = 4_000) {
  const box = await page.locator(selector).first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.evaluate(() => {
    globalThis.gaps = [];
    let last = performance.now();
    const step = (now) => {
      globalThis.gaps.push(now - last);
      last = now;
      globalThis.frame = requestAnimationFrame(step);
    };
    globalThis.frame = requestAnimationFrame(step);
  });
  const end = Date.now() + ms;
  while (Date.now() < end) {
    await page.mouse.wheel(0, 240);
    await page.waitForTimeout(16);
  }
  const gaps = (await page.evaluate(() => {
    cancelAnimationFrame(globalThis.frame);
    return globalThis.gaps;
  })).sort((a, b) => a - b);
  const at = (part) => Math.round(gaps[Math.floor((gaps.length - 1) * part)] * 10) / 10;
  return { frames: gaps.length, perSecond: Math.round((gaps.length / gaps.reduce((a, b) => a + b, 0)) * 1000), median: at(0.5), p95: at(0.95), worst: at(1) };
}
