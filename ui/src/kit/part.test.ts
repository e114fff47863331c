import { expect, test, vi } from "vitest";
import { part } from "./part";

function world(...answers: ("same" | "other" | "unreachable")[]) {
  const kept = new Map<string, string>();
  let now = 1_000_000;
  return {
    server: vi.fn(async () => answers.shift() ?? "same"),
    pause: vi.fn(async () => {
      now += 1000;
    }),
    reload: vi.fn(),
    now: () => now,
    storage: { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v) },
  };
}

const failing = (times: number) =>
  vi.fn(async () => {
    if (times-- > 0) throw new Error("Failed to fetch");
    return "the part";
  });

test("a part is waited for while the server is away, and the page stays", async () => {
  const w = world("unreachable", "unreachable", "unreachable");
  expect(await part(failing(3), w)).toBe("the part");
  expect(w.pause).toHaveBeenCalledTimes(3);
  expect(w.reload).not.toHaveBeenCalled();
});

test("after an upgrade the page loads itself anew, once in five minutes", async () => {
  const w = world("other", "other");
  void part(failing(1), w);
  await vi.waitFor(() => expect(w.reload).toHaveBeenCalledTimes(1));
  await expect(part(failing(1), w)).rejects.toThrow("Failed to fetch");
  expect(w.reload).toHaveBeenCalledTimes(1);
});

test("a browser that remembers the failure gets a page loaded anew when the server is back", async () => {
  const w = world("unreachable", "same");
  void part(failing(9), w);
  await vi.waitFor(() => expect(w.reload).toHaveBeenCalledTimes(1));
});

test("a part that is broken says so", async () => {
  const w = world("same");
  await expect(part(failing(1), w)).rejects.toThrow("Failed to fetch");
  expect(w.reload).not.toHaveBeenCalled();
});
