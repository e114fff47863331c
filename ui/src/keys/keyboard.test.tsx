// @vitest-environment happy-dom
import { act, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test } from "vitest";
import { byBareKey, listen, useAction, useAwaitedKeys } from "./keyboard";

let done: string[];
let root: ReturnType<typeof createRoot>;
let stop: () => void;
let host: HTMLElement;

function Handlers() {
  useAction("answer.allow", () => done.push("allow"));
  useAction("session.stop", () => done.push("stop"));
  useAction("diff.nextHunk", () => done.push("change"));
  useAction("conversation.next", () => done.push("step"));
  useAction("tab.changes", () => done.push("changes"));
  return null;
}

const show = (what: ReactNode) => act(async () => root.render(what));
const press = (key: string, at: Element = document.body, mods: KeyboardEventInit = {}) =>
  at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...mods }));

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  done = [];
  host = document.body.appendChild(document.createElement("div"));
  root = createRoot(host);
  stop = listen();
});
afterEach(async () => {
  await act(async () => root.unmount());
  host.remove();
  stop();
});

const panes = (
  <>
    <Handlers />
    <div data-keys="conversation">
      <a href="#a">agent</a>
      <div data-keys="question">
        <button type="button">Allow</button>
      </div>
    </div>
    <div data-keys="changes">
      <a href="#b">diff</a>
    </div>
  </>
);

test("a key answers only on the card that has the focus", async () => {
  await show(panes);
  press("a");
  press("a", host.querySelector("a")!);
  expect(done).toEqual([]);
  press("a", host.querySelector("button")!);
  expect(done).toEqual(["allow"]);
});

test("a sentence typed without a field stops nothing; the chord does", async () => {
  await show(panes);
  for (const c of "these are erased, i mean it") press(c === " " ? " " : c);
  expect(done).toEqual([]);
  press("e", document.body, { ctrlKey: true });
  press("s");
  expect(done).toEqual(["stop"]);
  expect(byBareKey()).toBe(false);
});

test("a key means what it means in the pane with the focus, and later in the pane used last", async () => {
  await show(panes);
  press("j", host.querySelector("[data-keys=changes] a")!);
  press("j", host.querySelector("[data-keys=conversation] a")!);
  expect(done).toEqual(["change", "step"]);
  host.querySelector("[data-keys=changes] a")!.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  press("j");
  expect(done).toEqual(["change", "step", "change"]);
  press("g");
  press("c");
  expect(done.at(-1)).toBe("changes");
  expect(byBareKey()).toBe(true);
});

test("keys pressed while something loads work once it is there", async () => {
  function Loading() {
    useAwaitedKeys("changes");
    return null;
  }
  await show(<Loading key="loading" />);
  press("j");
  expect(done).toEqual([]);
  await show(<Handlers key="there" />);
  await new Promise((r) => setTimeout(r, 0));
  expect(done).toEqual(["change"]);
});
