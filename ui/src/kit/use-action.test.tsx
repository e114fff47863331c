// @vitest-environment happy-dom
import { notifyManager, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { question } from "@/state/confirm";
import { toasts } from "@/state/toasts";
import { useAction } from "./use-action";

notifyManager.setScheduler(queueMicrotask);

let root: Root;
let client: QueryClient;
let action: ReturnType<typeof useAction<string, string>>;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  client = new QueryClient({ defaultOptions: { mutations: { networkMode: "always" } } });
  root = createRoot(document.createElement("div"));
});
afterEach(async () => {
  await act(async () => root.unmount());
  toasts.set([]);
  vi.unstubAllGlobals();
});

async function show(how: Parameters<typeof useAction<string, string>>[0]) {
  function Probe() {
    action = useAction(how);
    return null;
  }
  await act(async () =>
    root.render(
      <QueryClientProvider client={client}>
        <Probe />
      </QueryClientProvider>,
    ),
  );
}

test("is done to what was agreed to, and reads again what it changed", async () => {
  const deed = vi.fn(async (name: string) => `${name} is gone`);
  const done = vi.fn();
  const again = vi.spyOn(client, "invalidateQueries");
  await show({
    act: deed,
    confirm: (name) => name !== "nothing" && { title: `Delete ${name}?`, action: "Delete" },
    done,
    refresh: [["plans"]],
  });
  await act(async () => void action.run("Pro"));
  expect(question.get()?.title).toBe("Delete Pro?");
  await act(async () => question.get()?.answer(false));
  expect(deed).not.toHaveBeenCalled();

  await act(async () => void action.run("Pro"));
  await act(async () => question.get()?.answer(true));
  expect(done).toHaveBeenCalledExactlyOnceWith("Pro is gone", "Pro");
  expect(again).toHaveBeenCalledExactlyOnceWith({ queryKey: ["plans"] });

  await act(async () => void action.run("nothing"));
  expect(question.get()).toBeUndefined();
  expect(deed).toHaveBeenLastCalledWith("nothing");
});

test("says what it is done to while it is, and what failed", async () => {
  let fail = (_: Error) => {};
  await show({
    act: () =>
      new Promise((_, reject) => {
        fail = reject;
      }),
    failed: (name) => `${name} was not deleted`,
  });
  await act(async () => void action.run("Pro"));
  expect([action.busy, action.target]).toEqual([true, "Pro"]);
  await act(async () => fail(new Error("A team has it.")));
  expect([action.busy, action.target, action.error?.message]).toEqual([false, undefined, "A team has it."]);
  expect(toasts.get()).toMatchObject([{ kind: "bad", title: "Pro was not deleted", text: "A team has it." }]);
});
