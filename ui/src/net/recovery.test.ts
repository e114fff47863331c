import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Backoff } from "./backoff";
import { Comeback } from "./recovery";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A server that is away until a time, and counts what it is asked. */
function server(backAt: number) {
  const begun = Date.now();
  const s = {
    asked: 0,
    ask: async () => {
      s.asked++;
      return Date.now() - begun >= backAt;
    },
  };
  return s;
}

test("a server that was away for 20 s is noticed within a second, whatever the backoff has grown to", async () => {
  for (const luck of [0, 0.5, 0.999]) {
    const s = server(20_000);
    const comeback = new Comeback({ ask: s.ask, random: () => luck, hidden: () => false });
    let backAt = 0;
    const begun = Date.now();
    comeback.wait(() => {
      backAt = Date.now() - begun;
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(backAt).toBeGreaterThanOrEqual(20_000);
    expect(backAt).toBeLessThanOrEqual(21_000);
    // By itself the backoff tries about 0.5, 1.5, 3.5, 7.5, 15.5 and 30.5 s after the cut.
    const backoff = new Backoff(500, 15_000, () => luck);
    let at = 0;
    while (at < 20_000) at += backoff.next();
    expect(at).toBeGreaterThan(21_000);
  }
});

test("one probe serves all links of a page", async () => {
  const s = server(3_000);
  const comeback = new Comeback({ ask: s.ask, random: () => 0.5, hidden: () => false });
  const notified = [0, 0, 0];
  const wishes = notified.map((_, i) => comeback.wait(() => notified[i]!++));
  wishes[2]!();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(notified).toEqual([1, 1, 0]);
  expect(s.asked).toBeLessThanOrEqual(8);
});

test("a server that answers while a link fails is not asked in a loop", async () => {
  const s = server(0);
  const comeback = new Comeback({ ask: s.ask, random: () => 0.5, hidden: () => false });
  let notified = 0;
  comeback.wait(() => notified++);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([notified, s.asked]).toEqual([0, 1]);
  comeback.wait(() => notified++); // the link failed again
  await vi.advanceTimersByTimeAsync(60_000);
  expect([notified, s.asked]).toEqual([0, 2]);
});

test("nobody who waits is nobody who asks, and a late answer counts for nothing", async () => {
  const answers: ((there: boolean) => void)[] = [];
  const comeback = new Comeback({
    ask: () => new Promise((r) => answers.push(r)),
    random: () => 0.5,
    hidden: () => false,
  });
  let notified = 0;
  const leave = comeback.wait(() => notified++);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(answers.length).toBe(1);
  leave();
  const again = comeback.wait(() => notified++);
  answers[0]!(true);
  await vi.advanceTimersByTimeAsync(1_000);
  expect([notified, answers.length]).toEqual([0, 2]);
  again();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(answers.length).toBe(2);
});

test("many pages spread: a hundred ask at most a few times a second each, and come back over half a second", async () => {
  const s = server(3_000);
  const begun = Date.now();
  const back: number[] = [];
  for (let i = 0; i < 100; i++) {
    new Comeback({ ask: s.ask, hidden: () => false }).wait(() => back.push(Date.now() - begun));
  }
  await vi.advanceTimersByTimeAsync(3_000);
  expect(s.asked).toBeLessThan(100 * 12);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(back.length).toBe(100);
  const busiest = Math.max(
    ...Array.from({ length: 20 }, (_, n) => back.filter((t) => Math.floor((t - 3_000) / 50) === n).length),
  );
  expect(busiest).toBeLessThan(40);
});

test("a server that was away for minutes is noticed within 2 s in front of somebody, and a page that nobody looks at asks seldom", async () => {
  const hidden = server(1e9);
  new Comeback({ ask: hidden.ask, random: () => 0.5, hidden: () => true }).wait(() => {});
  const long = server(1e9);
  new Comeback({ ask: long.ask, random: () => 0.5, hidden: () => false }).wait(() => {});
  await vi.advanceTimersByTimeAsync(60_000);
  expect(hidden.asked).toBeLessThanOrEqual(6);
  const before = long.asked;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(long.asked - before).toBeLessThanOrEqual(47);
  for (const luck of [0, 0.999]) {
    const minutes = server(300_000);
    const begun = Date.now();
    let back = 0;
    new Comeback({ ask: minutes.ask, random: () => luck, hidden: () => false }).wait(() => {
      back = Date.now() - begun;
    });
    await vi.advanceTimersByTimeAsync(310_000);
    expect(back).toBeGreaterThanOrEqual(300_000);
    expect(back).toBeLessThanOrEqual(302_000);
  }
});

test("who has found the server unreachable is called at its first answer", async () => {
  const comeback = new Comeback({ ask: server(0).ask, random: () => 0.5, hidden: () => false });
  const back = vi.fn();
  comeback.wait(back, true);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(back).toHaveBeenCalledTimes(1);
});
