import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ack, binaryInput, colors, decode, input, ping, sizeWish, takeSize } from "./codec";
import { type LinkEvents, TerminalLink } from "./link";
import { ACK_EVERY, Offsets } from "./offsets";
import { PASTE_PIECE, pieces, planPaste } from "./paste";
import { readProgress } from "./progress";
import { cleanTitle, judgeLink, readOsc52 } from "./untrusted";

function frame(op: number, offset: number, bytes: Uint8Array): ArrayBuffer {
  const out = new Uint8Array(9 + bytes.length);
  const view = new DataView(out.buffer);
  view.setUint8(0, op);
  view.setBigUint64(1, BigInt(offset));
  out.set(bytes, 9);
  return out.buffer;
}

const json = (op: number, value: unknown): ArrayBuffer => {
  const text = new TextEncoder().encode(JSON.stringify(value));
  const out = new Uint8Array(1 + text.length);
  out[0] = op;
  out.set(text, 1);
  return out.buffer;
};

describe("codec", () => {
  it("reads output with its absolute offset, beyond 32 bits", () => {
    const at = 2 ** 40 + 7;
    expect(decode(frame(0, at, Uint8Array.of(1, 2)))).toEqual({ op: "output", offset: at, bytes: Uint8Array.of(1, 2) });
    expect(decode(frame(1, 5, new Uint8Array()))).toEqual({ op: "snapshot", offset: 5, bytes: new Uint8Array() });
  });

  it("reads sizes, JSON and pongs", () => {
    expect(decode(Uint8Array.of(2, 0, 159, 0, 72).buffer)).toEqual({ op: "size", cols: 159, rows: 72 });
    expect(decode(json(3, { state: "idle" }))).toEqual({ op: "state", json: { state: "idle" } });
    expect(decode(json(4, { exit_code: 0 }))).toEqual({ op: "exit", json: { exit_code: 0 } });
    expect(decode(Uint8Array.of(6).buffer)).toEqual({ op: "pong" });
  });

  it("ignores what it does not know and what is cut", () => {
    for (const bad of [[], [9, 1], [0, 1, 2], [2, 0, 1], [3, 123]])
      expect(decode(Uint8Array.from(bad).buffer)).toBeUndefined();
    expect(decode(frame(0, Number.MAX_SAFE_INTEGER + 1, new Uint8Array()))).toBeUndefined();
  });

  it("writes what it sends", () => {
    expect([...input("é\x03")]).toEqual([0, 0xc3, 0xa9, 3]);
    expect([...binaryInput("\x1b[M \xff!")]).toEqual([0, 0x1b, 0x5b, 0x4d, 0x20, 0xff, 0x21]);
    expect([...sizeWish(300, 40)]).toEqual([1, 1, 44, 0, 40]);
    expect([...ack(2 ** 33 + 1)]).toEqual([2, 0, 0, 0, 2, 0, 0, 0, 1]);
    expect([...ping()]).toEqual([3]);
    expect([...takeSize()]).toEqual([4]);
    expect([...colors("#e6e9ee", "#0b0d10", "")]).toEqual([6, 0xe6, 0xe9, 0xee, 0x0b, 0x0d, 0x10, 0, 0, 0]);
  });
});

describe("offsets", () => {
  const bytes = (n: number) => new Uint8Array(n);

  it("starts where the first frame starts and follows", () => {
    const o = new Offsets();
    expect(o.take(1000, bytes(10))).toMatchObject({ gap: 0, end: 1010 });
    expect(o.take(1010, bytes(5))).toMatchObject({ gap: 0, end: 1015 });
    expect(o.next).toBe(1015);
  });

  it("cuts off what was seen before and tells a gap", () => {
    const o = new Offsets();
    o.take(0, bytes(10));
    expect(o.take(4, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)).bytes).toEqual(Uint8Array.of(7, 8));
    expect(o.take(0, bytes(12)).bytes.length).toBe(0);
    expect(o.next).toBe(12);
    expect(o.take(20, bytes(4))).toMatchObject({ gap: 8, end: 24 });
  });

  it("acknowledges each 64 KiB that was parsed, and the rest when quiet", () => {
    const o = new Offsets();
    o.take(0, bytes(ACK_EVERY + 100));
    expect(o.behind).toBe(ACK_EVERY + 100);
    expect(o.done(ACK_EVERY - 1)).toBeUndefined();
    expect(o.done(ACK_EVERY + 100)).toBe(ACK_EVERY + 100);
    expect(o.flush()).toBeUndefined();
    o.take(ACK_EVERY + 100, bytes(10));
    expect(o.done(ACK_EVERY + 110)).toBeUndefined();
    expect(o.flush()).toBe(ACK_EVERY + 110);
  });

  it("goes on from a snapshot", () => {
    const o = new Offsets();
    o.take(0, bytes(10));
    o.reset(500);
    expect(o.take(500, bytes(1))).toMatchObject({ gap: 0, end: 501 });
  });
});

class FakeSocket {
  static all: FakeSocket[] = [];
  binaryType = "";
  readyState = 0;
  bufferedAmount = 0;
  sent: number[][] = [];
  onopen?: () => void;
  onmessage?: (m: { data: ArrayBuffer }) => void;
  onclose?: (e: { code: number }) => void;
  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  send(b: Uint8Array) {
    this.sent.push([...b]);
  }
  close() {
    this.readyState = 3;
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
  }
  get(data: ArrayBuffer) {
    this.onmessage?.({ data });
  }
  cut(code = 1006) {
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

describe("link", () => {
  let written = "";
  let parse: (() => void)[] = [];
  let events: { [K in keyof LinkEvents]: ReturnType<typeof vi.fn> };
  let link: TerminalLink;
  let serverBack: (() => void) | undefined;
  let heard = new Map<string, () => void>(); // events of the window
  const sockets = FakeSocket.all;

  beforeEach(() => {
    vi.useFakeTimers();
    heard = new Map();
    vi.stubGlobal("addEventListener", (name: string, act: () => void) => heard.set(name, act));
    vi.stubGlobal("removeEventListener", (name: string) => heard.delete(name));
    vi.stubGlobal("document", { addEventListener() {}, removeEventListener() {}, visibilityState: "visible" });
    sockets.length = 0;
    written = "";
    parse = [];
    events = {
      output: vi.fn((b: Uint8Array, _end: number, done: () => void) => {
        written += new TextDecoder().decode(b);
        parse.push(done);
      }),
      snapshot: vi.fn(),
      gap: vi.fn(),
      size: vi.fn(),
      state: vi.fn(),
      exit: vi.fn(),
      error: vi.fn(),
      reset: vi.fn(),
      link: vi.fn(),
      back: vi.fn(),
      trouble: vi.fn(),
    };
    link = new TerminalLink({
      url: (from) => (from === undefined ? "t" : `t?from=${from}`),
      events: events as unknown as LinkEvents,
      connect: (url) => new FakeSocket(url) as unknown as WebSocket,
      random: () => 0.5,
      comeback: {
        wait: (back) => {
          serverBack = back;
          return () => {
            serverBack = undefined;
          };
        },
      },
    });
    link.start();
  });
  afterEach(() => {
    link.close();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const text = (s: string) => new TextEncoder().encode(s);

  it("tries at once when the server is back, and waits for that only while it is cut", () => {
    sockets[0]!.open();
    expect(serverBack).toBeUndefined();
    for (let i = 0; i < 5; i++) {
      sockets.at(-1)!.cut();
      if (i < 4) vi.advanceTimersByTime(20_000);
    }
    expect(sockets.length).toBe(5);
    serverBack!();
    expect(sockets.length).toBe(6);
    sockets[5]!.open();
    expect(serverBack).toBeUndefined();
    sockets[5]!.cut();
    link.close();
    expect(serverBack).toBeUndefined();
  });

  it.each(["online", "focus", "pageshow"])(
    "tries at once on %s while it is cut, and never more than one at a time",
    (sign) => {
      sockets[0]!.open();
      for (let i = 1; i < 6; i++) {
        sockets.at(-1)!.cut();
        heard.get(sign)!();
        heard.get(sign)!();
        expect(sockets.length).toBe(i + 1);
      }
      link.close();
      expect(heard.size).toBe(0);
    },
  );

  it("asks a connection that seems open when somebody comes back, and replaces one that is dead", () => {
    sockets[0]!.open();
    heard.get("focus")!();
    vi.advanceTimersByTime(4_000);
    sockets[0]!.get(frame(0, 0, text("there")));
    vi.advanceTimersByTime(4_000);
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "live" }));
    heard.get("focus")!();
    vi.advanceTimersByTime(5_000);
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "waiting" }));
    vi.advanceTimersByTime(600);
    expect(sockets.length).toBe(2);
  });

  it("comes back by offset and writes each byte once", () => {
    sockets[0]!.open();
    sockets[0]!.get(frame(0, 0, text("hello ")));
    sockets[0]!.cut();
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "waiting" }));
    vi.advanceTimersByTime(500);
    expect(sockets[1]!.url).toBe("t?from=6");
    sockets[1]!.open();
    sockets[1]!.get(frame(0, 3, text("lo world")));
    expect(written).toBe("hello world");
    vi.advanceTimersByTime(300);
    expect(events.back).toHaveBeenCalledWith(5);
  });

  it("begins with the screen and goes on behind it, also after a cut", () => {
    expect(sockets[0]!.url).toBe("t");
    sockets[0]!.open();
    sockets[0]!.get(frame(1, 5000, text("the screen")));
    expect(events.snapshot).toHaveBeenCalledWith(text("the screen"));
    sockets[0]!.get(frame(0, 5000, text("more")));
    expect(written).toBe("more");
    expect(events.gap).not.toHaveBeenCalled();
    sockets[0]!.cut();
    vi.advanceTimersByTime(500);
    expect(sockets[1]!.url).toBe("t?from=5004");
  });

  it("keeps nothing that was typed while there is no connection", () => {
    expect(link.type("a")).toBe(false);
    sockets[0]!.open();
    expect(link.type("b")).toBe(true);
    sockets[0]!.cut();
    expect(link.type("c")).toBe(false);
    vi.advanceTimersByTime(500);
    sockets[1]!.open();
    expect(sockets[0]!.sent).toEqual([[0, 98]]);
    expect(sockets[1]!.sent).toEqual([]);
  });

  it("acknowledges after parsing, not after receiving", () => {
    sockets[0]!.open();
    sockets[0]!.get(frame(0, 0, new Uint8Array(ACK_EVERY)));
    expect(sockets[0]!.sent).toEqual([]);
    parse[0]!();
    expect(sockets[0]!.sent).toEqual([[...ack(ACK_EVERY)]]);
  });

  it("comes back at once when it was too slow, and not at all when it may not or need not", () => {
    sockets[0]!.open();
    sockets[0]!.cut(4008);
    vi.advanceTimersByTime(0);
    expect(sockets.length).toBe(2);
    sockets[1]!.cut(4003);
    vi.advanceTimersByTime(60_000);
    expect(sockets.length).toBe(2);
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "denied" }));
    expect(events.trouble).toHaveBeenCalledTimes(1);
  });

  it("begins again when the server has less than we have", () => {
    sockets[0]!.open();
    sockets[0]!.get(frame(0, 0, text("hello")));
    sockets[0]!.get(json(5, { code: "offset_beyond_end", message: "", details: { end: 3 } }));
    sockets[0]!.cut(4001);
    expect(events.reset).toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(sockets[1]!.url).toBe("t");
    sockets[1]!.open();
    sockets[1]!.get(frame(0, 0, text("hel")));
    expect(written).toBe("hellohel");
  });

  it("ends with the session", () => {
    sockets[0]!.open();
    sockets[0]!.get(json(4, { exit_code: 0 }));
    sockets[0]!.cut(1000);
    vi.advanceTimersByTime(60_000);
    expect(sockets.length).toBe(1);
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "ended" }));
  });

  it("waits longer and longer, up to 15 s", () => {
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      sockets.at(-1)!.cut();
      const before = sockets.length;
      let ms = 0;
      while (sockets.length === before) {
        vi.advanceTimersByTime(100);
        ms += 100;
      }
      waits.push(ms);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    expect(events.trouble).toHaveBeenCalled();
  });

  it("asks a silent connection and cuts one that does not answer", () => {
    sockets[0]!.open();
    vi.advanceTimersByTime(15_000);
    expect(sockets[0]!.sent).toEqual([[3]]);
    sockets[0]!.get(Uint8Array.of(6).buffer);
    vi.advanceTimersByTime(15_000);
    expect(sockets[0]!.sent.length).toBe(2);
    vi.advanceTimersByTime(10_000);
    expect(events.link).toHaveBeenLastCalledWith(expect.objectContaining({ phase: "waiting" }));
  });
});

describe("paste", () => {
  it("marks a paste where the program asks for it, and lets nothing end the mark", () => {
    const plan = planPaste("a\nb\x1b[201~evil\r\n", true);
    expect(new TextDecoder().decode(plan.bytes)).toBe("\x1b[200~a\rb[201~evil\r\x1b[201~");
    expect(plan.ask).toBe("");
  });

  it("asks about many lines and control characters elsewhere", () => {
    expect(planPaste("1\n2\n3\n4\n5", false).ask).toBe("");
    expect(planPaste("1\n2\n3\n4\n5\n6", false).ask).toBe("lines");
    expect(planPaste("ls\x03", false).ask).toBe("control");
    expect(planPaste("tab\tis fine", false).ask).toBe("");
  });

  it("refuses more than 1 MiB and travels in pieces of 16 KiB", () => {
    expect(planPaste("x".repeat((1 << 20) + 1), false).tooLarge).toBe(true);
    const all = [...pieces(new Uint8Array(PASTE_PIECE * 2 + 5))];
    expect(all.map((p) => p.length)).toEqual([PASTE_PIECE, PASTE_PIECE, 5]);
  });
});

describe("untrusted output", () => {
  it("keeps titles plain", () => {
    expect(cleanTitle("\x1b]0;\u202efoo\u0007bar")).toBe("]0;foobar");
    expect(cleanTitle("x".repeat(500)).length).toBe(200);
  });

  it("lets the clipboard be written, never read", () => {
    expect(readOsc52("c;aGVsbG8=")).toEqual({ kind: "write", text: "hello" });
    expect(readOsc52("c;?")).toEqual({ kind: "read" });
    expect(readOsc52(`c;${"A".repeat(120_000)}`)).toMatchObject({ kind: "refused" });
    expect(readOsc52("c;***")).toMatchObject({ kind: "refused" });
  });

  it("opens only web and mail links, and asks where text and target differ", () => {
    expect(judgeLink("javascript:alert(1)", "x").open).toBe("no");
    expect(judgeLink("file:///etc/passwd", "x").open).toBe("no");
    expect(judgeLink("https://example.com/a", "https://example.com/a")).toEqual({
      open: "yes",
      url: "https://example.com/a",
    });
    expect(judgeLink("https://evil.example/", "https://example.com/")).toMatchObject({ open: "ask", why: "different" });
    expect(judgeLink("https://evil.example/", "click here")).toMatchObject({ open: "ask", why: "different" });
    expect(judgeLink("https://a@evil.example/", "https://a@evil.example/")).toMatchObject({ open: "ask" });
    expect(judgeLink("http://localhost:3000/", "http://localhost:3000/")).toMatchObject({ open: "ask", why: "local" });
  });

  it("reads progress", () => {
    expect(readProgress("4;1;40")).toEqual({ kind: "part", part: 40, failed: false });
    expect(readProgress("4;3")).toEqual({ kind: "busy" });
    expect(readProgress("4;0")).toBeUndefined();
    expect(readProgress("hello")).toBeNull();
  });
});
