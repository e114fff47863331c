import { expect, test } from "vitest";
import { buttonName, modifiers, within, writes } from "./input";
import { readFrame } from "./link";
import { frameAt, readRecording } from "./recording";

test("a point is right at any size of the panel", () => {
  const picture = { width: 1280, height: 800 };
  expect(within({ left: 10, top: 20, width: 640, height: 400 }, picture, 330, 220)).toEqual({ x: 0.5, y: 0.5 });
  // Wider than the picture: bars at the sides.
  expect(within({ left: 0, top: 0, width: 1000, height: 400 }, picture, 180, 0)).toEqual({ x: 0, y: 0 });
  expect(within({ left: 0, top: 0, width: 1000, height: 400 }, picture, 5, 500)).toEqual({ x: 0, y: 1 });
});

test("keys and buttons", () => {
  const key = { key: "a", altKey: false, ctrlKey: false, metaKey: false, shiftKey: true };
  expect(modifiers(key)).toBe(8);
  expect(writes(key)).toBe(true);
  expect(writes({ ...key, ctrlKey: true })).toBe(false);
  expect(writes({ ...key, key: "Enter" })).toBe(false);
  expect([0, 1, 2, 9].map(buttonName)).toEqual(["left", "middle", "right", "none"]);
});

test("a frame names its number and its tab", () => {
  const raw = new Uint8Array([0, 0, 1, 2, 0, 3, 5, 0, 3, 32, 255, 216]).buffer;
  expect(readFrame(raw)).toMatchObject({ seq: 258, tab: 3, jpeg: new Uint8Array([255, 216]) });
  expect(readFrame(new ArrayBuffer(4))).toBeUndefined();
});

test("a recording that was cut is good up to there", () => {
  const text = (s: string) => [...new TextEncoder().encode(s)];
  const record = (kind: string, at: number, body: number[]) => [
    kind.charCodeAt(0),
    ...[at, body.length].flatMap((n) => [n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255]),
    ...body,
  ];
  const bytes = [
    ...text("PWBR1\n"),
    ...record("h", 0, text('{"started_at":5}')),
    ...record("f", 100, [1]),
    ...record("a", 700, text('{"by":"Ada","tool":"take_over"}')),
    ...record("f", 900, [2]),
    ...record("f", 1000, [1, 2, 3]).slice(0, -1),
  ];
  const r = readRecording(new Uint8Array(bytes).buffer);
  expect(r).toMatchObject({ length: 900, actions: [{ at: 700, by: "Ada", tool: "take_over" }] });
  expect(r?.frames.map((f) => f.at)).toEqual([100, 900]);
  expect([0, 100, 899, 900, 5000].map((at) => frameAt(r?.frames ?? [], at))).toEqual([0, 0, 0, 1, 1]);
  expect(readRecording(new ArrayBuffer(3))).toBeUndefined();
});
