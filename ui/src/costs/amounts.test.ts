import { describe, expect, it } from "vitest";
import {
  clockSpell,
  daySpan,
  exactUsd,
  monthAfter,
  monthName,
  monthOf,
  monthSpan,
  readUsd,
  spell,
  tokenCount,
  usdField,
} from "./amounts";
import { barAt, labelled, ticks } from "./scale";
import { isDay, isMonth } from "./usage-search";

describe("amounts", () => {
  it("shows every nano-dollar", () => {
    expect(exactUsd(842_913_123)).toBe("$0.842913123");
    expect(exactUsd(12_500_000_000)).toBe("$12.50");
    expect(exactUsd(1)).toBe("$0.000000001");
    expect(exactUsd(0)).toBe("$0.00");
    expect(exactUsd(1_204_000_000_010)).toBe("$1,204.00000001");
    expect(exactUsd(-5_000_000_000)).toBe("−$5.00");
  });

  it("reads dollars without a float in between", () => {
    expect(readUsd("500")).toBe(500_000_000_000);
    expect(readUsd(" $1,204.10 ")).toBe(1_204_100_000_000);
    expect(readUsd("0.000014")).toBe(14_000);
    expect(readUsd("0.1")).toBe(100_000_000);
    expect(readUsd(".5")).toBe(500_000_000);
    expect(readUsd("")).toBeNull();
    for (const bad of ["ten", "-1", "1.2.3", "0.0000000001", ".", "99999999999"]) expect(readUsd(bad)).toBeUndefined();
    for (const n of [0, 1, 14_000, 500_000_000_000, 8_999_999_123_456_789]) expect(readUsd(usdField(n))).toBe(n);
    expect(usdField(null)).toBe("");
  });

  it("spells times and counts", () => {
    expect(spell(0)).toBe("0 s");
    expect(spell(400)).toBe("under 1 s");
    expect(spell(59_999)).toBe("59 s");
    expect(spell(12 * 60_000)).toBe("12 min");
    expect(spell(3.49 * 3_600_000)).toBe("3.4 h");
    expect(spell(1204.9 * 3_600_000)).toBe("1,204 h");
    expect(clockSpell(43_509_999)).toBe("12:05:09");
    expect(tokenCount(812)).toBe("812");
    expect(tokenCount(34_100)).toBe("34.1 k");
    expect(tokenCount(999_990)).toBe("1 M");
    expect(tokenCount(1_240_000)).toBe("1.2 M");
  });

  it("knows months by UTC", () => {
    expect(monthOf(Date.UTC(2026, 10, 30, 23, 59))).toBe("2026-11");
    expect(monthSpan("2026-12")).toEqual({ from: Date.UTC(2026, 11, 1), to: Date.UTC(2027, 0, 1) });
    expect(monthAfter("2026-01", -1)).toBe("2025-12");
    expect(monthAfter("2026-12", 1)).toBe("2027-01");
    expect(monthName("2026-11")).toBe("November 2026");
    expect(daySpan("2026-11-05").to - daySpan("2026-11-05").from).toBe(86_400_000);
    expect([isMonth("2026-13"), isMonth("2026-02"), isDay("2026-02-31x"), isDay("2026-02-28")]).toEqual([
      false,
      true,
      false,
      true,
    ]);
  });
});

describe("the chart's scale", () => {
  it("draws lines people can read", () => {
    expect(ticks(0)).toEqual([0]);
    expect(ticks(840_000_000)).toEqual([0, 500_000_000, 1_000_000_000]);
    expect(ticks(1_000)).toEqual([0, 500, 1000]);
    expect(ticks(730)).toEqual([0, 200, 400, 600, 800]);
    expect(ticks(3)).toEqual([0, 1, 2, 3]);
  });

  it("labels as many bars as there is room for", () => {
    expect(labelled(4, 800)).toEqual([0, 1, 2, 3]);
    expect(labelled(31, 290)).toEqual([0, 6, 12, 18, 24, 30]);
    expect(labelled(0, 290)).toEqual([]);
  });

  it("finds the bar under a finger", () => {
    expect([barAt(-5, 300, 30), barAt(0, 300, 30), barAt(155, 300, 30), barAt(999, 300, 30)]).toEqual([0, 0, 15, 29]);
  });
});
