import { beforeEach, expect, test, vi } from "vitest";
import { upgrade } from "@/state/upgrade";
import { part } from "./part";

const world = (...answers: ("same" | "other" | "unreachable")[]) => ({
  served: vi.fn(async () => answers.shift() ?? "same"),
  pause: vi.fn(async () => {}),
});

const failing = (times: number) =>
  vi.fn(async () => {
    if (times-- > 0) throw new Error("Failed to fetch");
    return "the part";
  });

beforeEach(() => upgrade.set(""));

test("a part is waited for while the server is away", async () => {
  const w = world("unreachable", "unreachable", "unreachable");
  expect(await part(failing(3), w)).toBe("the part");
  expect(w.pause).toHaveBeenCalledTimes(3);
  expect(upgrade.get()).toBe("");
});

test.each([
  ["the server was upgraded", world("other")],
  ["the browser remembers the failure", world("unreachable", "same")],
])("a part that is gone is missed, and nothing breaks: %s", async (_, w) => {
  const failed = vi.fn();
  void part(failing(9), w).catch(failed);
  await vi.waitFor(() => expect(upgrade.get()).toBe("missed"));
  expect(failed).not.toHaveBeenCalled();
});

test("a part that is broken says so", async () => {
  await expect(part(failing(1), world("same"))).rejects.toThrow("Failed to fetch");
});
