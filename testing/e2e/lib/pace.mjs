// How a page feels on a slow machine: what blocks its start, and its frames while it scrolls. Times are of this machine; no test asserts them.

/** Total blocking time: ms beyond 50 of each long task, from the navigation until the page has been quiet for 2 s, on a CPU so many times as slow. */
export async function blocking(page, url, ready, slower = 4) {
  const cdp = await page.context().newCDPSession(page);
  await page.addInitScript(() => {
    globalThis.longTasks = [];
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) globalThis.longTasks.push([e.startTime, e.duration]);
    }).observe({ type: "longtask", buffered: true });
  });
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: slower });
  await page.goto(url);
  await ready(page);
  await page.waitForTimeout(2_000);
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  const { tasks, paint } = await page.evaluate(() => ({
    tasks: globalThis.longTasks,
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  }));
  const blocked = tasks.filter(([at, took]) => at + took > paint).reduce((sum, [, took]) => sum + Math.max(0, took - 50), 0);
  return { blocked: Math.round(blocked), longest: Math.round(Math.max(0, ...tasks.map(([, took]) => took))), paint: Math.round(paint) };
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
