import type RFB from "@novnc/novnc";
import { expect, test, vi } from "vitest";
import { DesktopLink } from "./link";

test("a screen that noVNC cannot read, or gives up, is connected again", () => {
  vi.useFakeTimers();
  const sockets: Socket[] = [];
  class Socket {
    static OPEN = 1;
    readyState = 1;
    onopen = () => {};
    onmessage = (_: { data: unknown }) => {};
    onclose = (_: { code: number }) => {};
    constructor() {
      sockets.push(this);
    }
    close() {
      this.onclose({ code: 1005 });
    }
  }
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("addEventListener", () => {});
  vi.stubGlobal("removeEventListener", () => {});
  vi.stubGlobal("document", {
    addEventListener() {},
    removeEventListener() {},
    hidden: false,
    visibilityState: "visible",
  });
  let channel: { onmessage: unknown; close(): void } | undefined;
  class Client {
    constructor(_: unknown, c: typeof channel) {
      channel = c;
    }
    addEventListener() {}
  }
  const ended = vi.fn();
  const none = () => {};
  const target = { replaceChildren: none } as unknown as HTMLElement;
  const events = { phase: none, state: none, clipboard: none, ended };
  const link = new DesktopLink("ws://x", Client as unknown as typeof RFB, target, events);
  link.start();
  sockets[0]?.onopen();
  if (channel)
    channel.onmessage = () => {
      throw new Error("zlib inflate failed");
    };
  sockets[0]?.onmessage({ data: new ArrayBuffer(1) });
  vi.runAllTimers();
  expect([ended.mock.calls.length, sockets.length]).toEqual([1, 2]);
  sockets[1]?.onopen();
  channel?.close();
  vi.runAllTimers();
  expect([ended.mock.calls.length, sockets.length]).toEqual([2, 3]);
  link.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
