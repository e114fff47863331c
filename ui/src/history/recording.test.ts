import { describe, expect, it } from "vitest";
import { activity, nextAfter, offsetAt, readTiming, refine, sizeAfter, stamp, timeOf } from "./recording";

const t = readTiming({
  first: 10,
  end: 100,
  at: [1000, 50, 950, -100, 3000],
  offset: [20, 10, 30, 20, 20],
  exact: false,
  sizes: [
    { at: 1000, offset: 0, cols: 80, rows: 24 },
    { at: 2000, offset: 60, cols: 100, rows: 30 },
  ],
});

describe("timeline", () => {
  it("sums up, and shows a clock that went back as a pause", () => {
    expect(t.at).toEqual([1000, 1050, 2000, 2000, 4900]);
    expect(t.offset).toEqual([20, 30, 60, 80, 100]);
  });
  it("knows how far output had come, and when a byte came", () => {
    expect([0, 999, 1000, 1049, 1050, 2000, 9999].map((at) => offsetAt(t, at))).toEqual([10, 10, 20, 20, 30, 80, 100]);
    expect([10, 19, 20, 59, 60, 99, 100].map((o) => timeOf(t, o))).toEqual([1000, 1000, 1050, 2000, 2000, 4900, 4900]);
    expect(nextAfter(t, 2000)).toBe(4900);
    expect(nextAfter(t, 4900)).toBeUndefined();
    expect(sizeAfter(t, 10)?.cols).toBe(100);
    expect(sizeAfter(t, 60)).toBeUndefined();
  });
  it("takes finer marks in", () => {
    const fine = { ...t, at: [1500, 1600, 2000], offset: [40, 50, 80] };
    const r = refine(t, fine);
    expect(r.at).toEqual([1000, 1050, 1500, 1600, 2000, 4900]);
    expect(r.offset).toEqual([20, 30, 40, 50, 80, 100]);
  });
  it("measures activity", () => {
    const a = activity(t, 1000, 4900, 4);
    expect(a).toHaveLength(4);
    expect(Math.max(...a)).toBe(1);
    expect(a[2]).toBe(0);
  });
  it("shows times as players do", () => {
    expect([0, 7000, 754_000, 3_723_000].map(stamp)).toEqual(["0:00", "0:07", "12:34", "1:02:03"]);
  });
});
