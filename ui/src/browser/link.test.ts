import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { BrowserLink } from "./link";

class Socket {
  static readonly OPEN = 1;
  static all: Socket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen?: () => void;
  onclose?: (e: { code: number }) => void;
  onmessage?: (e: { data: unknown }) => void;
  constructor() {
    Socket.all.push(this);
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
  }
  cut(code: number) {
    this.readyState = 3;
    this.onclose?.({ code });
  }
  picture(seq: number) {
    const raw = new ArrayBuffer(11);
    new DataView(raw).setUint32(0, seq);
    this.onmessage?.({ data: raw });
  }
  send(text: string) {
    this.sent.push(text);
  }
  close() {}
}

const log: string[] = [];
const decoders: (() => void)[] = [];
const newest = () => Socket.all[Socket.all.length - 1]!;

function connect(): BrowserLink {
  const l = new BrowserLink("ws://x", {
    phase: (p) => log.push(p),
    state: () => {},
    refused: () => {},
    picture: (p) => log.push(`picture ${(p as unknown as { n: number }).n}`),
  });
  l.start();
  newest().open();
  return l;
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("addEventListener", () => {});
  vi.stubGlobal("removeEventListener", () => {});
  vi.stubGlobal("document", {
    addEventListener() {},
    removeEventListener() {},
    hidden: false,
    visibilityState: "visible",
  });
  let n = 0;
  vi.stubGlobal("createImageBitmap", () => {
    const picture = { n: ++n, close: () => log.push(`closed ${picture.n}`) };
    return new Promise((done) => decoders.push(() => done(picture)));
  });
  log.length = decoders.length = Socket.all.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a person who lost the right to use the browser goes on watching", () => {
  const l = connect();
  newest().cut(4003);
  vi.advanceTimersByTime(1000);
  newest().open();
  expect(Socket.all).toHaveLength(2);
  expect(log).not.toContain("denied");
  expect(log[log.length - 1]).toBe("live");
  l.close();
});

test("a person who may not watch either reads so, until they may again", () => {
  const l = connect();
  newest().cut(4003);
  for (let i = 0; i < 3; i++) {
    vi.advanceTimersByTime(20_000);
    newest().cut(1006); // refused before it opened
    expect(log[log.length - 1]).toBe("denied");
  }
  vi.advanceTimersByTime(20_000);
  newest().open();
  expect(log[log.length - 1]).toBe("live");
  l.close();
});

test("an older picture that is decoded late does not replace a newer one, and both are acknowledged", async () => {
  const l = connect();
  newest().picture(8);
  newest().picture(9);
  decoders[1]!();
  await vi.advanceTimersByTimeAsync(1);
  decoders[0]!();
  await vi.advanceTimersByTimeAsync(1);
  expect(log.slice(-2)).toEqual(["picture 2", "closed 1"]);
  expect(newest().sent).toHaveLength(2);
  l.close();
});
