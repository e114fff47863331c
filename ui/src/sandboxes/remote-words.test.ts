import { describe, expect, it } from "vitest";
import { hourly, usd } from "@/format/money";
import { secondsAgo, until } from "@/format/time";
import type { Place, RemoteSandbox, Size } from "./remote";
import {
  canHave,
  chosenSize,
  commandIn,
  costWords,
  fallbackChanges,
  fallbackPlace,
  progressPart,
  progressWords,
  refusedWhole,
  sandboxSaid,
  sizeForLimits,
  sizeName,
  sleeps,
  stillWords,
  syncSaid,
  upgradeWords,
} from "./remote-words";

const size = (cpus: number, over: Partial<Size> = {}): Size => ({
  cpus,
  memory_mb: cpus * 1024,
  price_nano_per_hour: cpus * 50_400_000,
  available: true,
  reason: "",
  hint: "",
  default: false,
  ...over,
});
const place = (over: Partial<Place>) =>
  ({
    kind: "e2b",
    name: "E2B",
    available: true,
    allowed: true,
    boundary: "microvm",
    boundary_name: "MicroVM",
    isolation: "",
    own_disk: true,
    price_nano_per_hour: 0,
    sizes: [],
    ...over,
  }) as Place;
const NOW = 1_800_000_000_000;

describe("sizes a quota keeps from somebody", () => {
  const refused = { code: "size_not_in_plan", reason: "2 cores are the most for you", hint: "choose a larger plan" };
  const some = place({ sizes: [size(1), size(2), size(4, { default: true, refused }), size(8, { refused })] });

  it("are not chosen: the largest that may be is", () => {
    expect(chosenSize(some, undefined)?.cpus).toBe(2);
    expect(chosenSize(some, "8x8192")?.cpus).toBe(2);
    expect(chosenSize(some, "1x1024")?.cpus).toBe(1);
    expect(some.sizes.map(canHave)).toEqual([true, true, false, false]);
  });

  it("refuse the whole place when nothing is left", () => {
    expect(refusedWhole(some)).toBeUndefined();
    const none = place({ sizes: [size(1, { default: true, refused }), size(2, { available: false })] });
    expect(refusedWhole(none)).toEqual(refused);
    expect(chosenSize(none, undefined)).toBeUndefined();
    expect(refusedWhole(place({ sizes: [] }))).toBeUndefined();
  });
});

describe("money", () => {
  it("is shown in cents, and hourly prices more precisely", () => {
    expect([usd(0), usd(1), usd(840_000_000), usd(1_204e9)]).toEqual(["$0.00", "under $0.01", "$0.84", "$1,204.00"]);
    expect([hourly(50_400_000), hourly(82_800_000), hourly(110_000_000), hourly(1e9)]).toEqual([
      "$0.05",
      "$0.083",
      "$0.11",
      "$1.00",
    ]);
  });
});

describe("sizes", () => {
  const sizes = [size(1), size(2, { default: true }), size(4), size(8, { available: false })];
  const e2b = place({ sizes });
  it("take what was asked for where it can be had, else the place's own", () => {
    expect(chosenSize(e2b, "4x4096")?.cpus).toBe(4);
    expect(chosenSize(e2b, "8x8192")?.cpus).toBe(2);
    expect(chosenSize(e2b, undefined)?.cpus).toBe(2);
    expect(chosenSize(place({ sizes: [] }), "4x4096")).toBeUndefined();
    expect(chosenSize(undefined, "4x4096")).toBeUndefined();
  });
  it("are named, and cost what the chosen one costs", () => {
    expect([sizeName(size(1)), sizeName({ cpus: 2, memory_mb: 512 })]).toEqual(["1 core, 1 GB", "2 cores, 512 MB"]);
    expect(costWords({ ...e2b, budget_left_nano: 412_100_000_000 }, size(2))).toBe(
      "$0.10 an hour while it runs, $412.10 of this month's budget left",
    );
    expect(costWords({ ...e2b, budget_left_nano: 0 }, size(2))).toContain("this month's budget is spent");
    expect(costWords(place({ price_nano_per_hour: 0 }), undefined)).toBe("");
  });
  it("follow from limits: the smallest with as much as they say", () => {
    expect(sizeForLimits(e2b, { cpus: 0, memory_mb: 0 })?.cpus).toBe(2);
    expect(sizeForLimits(e2b, { cpus: 3, memory_mb: 0 })?.cpus).toBe(4);
    expect(sizeForLimits(e2b, { cpus: 1, memory_mb: 2048 })?.cpus).toBe(2);
    expect(sizeForLimits(e2b, { cpus: 8, memory_mb: 0 })).toBeUndefined();
  });
  it("name the command that builds them", () => {
    expect(commandIn("Run `parawork e2b template build --size 8x8192`, then reload.")).toBe(
      "parawork e2b template build --size 8x8192",
    );
    expect(commandIn("Build it with: parawork e2b template build -size 8x8192.")).toBe(
      "parawork e2b template build -size 8x8192",
    );
    expect(commandIn("Ask E2B for more.")).toBe("");
  });
});

describe("falling back", () => {
  const local = place({ kind: "local", name: "This server", boundary: "none", own_disk: false });
  const bwrap = place({ kind: "bubblewrap", name: "Process sandbox", boundary: "process", own_disk: false });
  it("takes the strongest place of this server that may be used", () => {
    expect(fallbackPlace([place({}), local, bwrap])?.kind).toBe("bubblewrap");
    expect(fallbackPlace([place({}), local, { ...bwrap, allowed: false }])?.kind).toBe("local");
    expect(fallbackPlace([place({}), { ...local, available: false }])).toBeUndefined();
  });
  it("says where the code goes, how it is isolated, and what it costs", () => {
    const words = fallbackChanges(place({ sizes: [size(2)] }), {
      ...bwrap,
      isolation: "Agents see their worktree only",
    });
    expect(words).toEqual([
      "Its code stays on this server instead of moving to E2B.",
      "Isolation: agents see their worktree only.",
      "It has no hourly cost.",
    ]);
  });
});

describe("steps", () => {
  it("say how far they are only where it is known", () => {
    expect(progressWords({ done: 12_400_000, all: 80_000_000 })).toBe("12 MB of 80 MB");
    expect(progressWords({ done: 900, all: 0 })).toBe("900 B");
    expect(progressWords({ done: 0, all: 0 })).toBe("");
    expect([
      progressPart({ done: 5, all: 10 }),
      progressPart({ done: 20, all: 10 }),
      progressPart({ done: 1, all: 0 }),
    ]).toEqual([0.5, 1, undefined]);
  });
});

describe("times", () => {
  it.each([
    [500, "in 1 s"],
    [40_000, "in 40 s"],
    [240_000, "in 4 min"],
    [7_500_000, "in 2 h 5 min"],
    [7_200_000, "in 2 h"],
    [-5, "in 0 s"],
  ])("until %d", (ms, want) => expect(until(NOW + ms, NOW)).toBe(want));
  it.each([
    [400, "just now"],
    [3_400, "3 s ago"],
    [61_000, "1 min ago"],
    [3 * 3_600_000, "3 h ago"],
    [80 * 3_600_000, "3 d ago"],
  ])("since %d", (ms, want) => expect(secondsAgo(NOW - ms, NOW)).toBe(want));
});

describe("a sandbox", () => {
  const s = (over: Partial<RemoteSandbox>) =>
    ({ state: "running", state_reason: "", paused_for: "", paused_at: null, ...over }) as RemoteSandbox;
  it("says whether its files are synced", () => {
    const sync = { state: "synced" as const, synced_at: NOW - 3000, pending: 0, reason: "" };
    expect(syncSaid(sync, NOW)).toEqual({ mark: "done", text: "Synced 3 s ago" });
    expect(syncSaid({ ...sync, state: "syncing", pending: 12 }, NOW).text).toBe("Syncing, 12 files left, last 3 s ago");
    expect(syncSaid({ ...sync, state: "behind", synced_at: null }, NOW)).toEqual({
      mark: "needs",
      text: "Sync is behind",
    });
  });
  it("sleeps when nobody used it, and waits for a person where a person or a limit stopped it", () => {
    for (const why of ["idle", "lease", "ceiling"] as const)
      expect(sleeps(s({ state: "paused", paused_for: why }))).toBe(true);
    for (const why of ["person", "limit", ""] as const)
      expect(sleeps(s({ state: "paused", paused_for: why }))).toBe(false);
    expect(sandboxSaid(s({ state: "paused", paused_for: "idle" })).text).toBe("Asleep");
    expect(sandboxSaid(s({ state: "paused", paused_for: "person" })).text).toBe("Paused");
    const asleep = stillWords(s({ state: "paused", paused_for: "idle", paused_at: NOW }), NOW);
    expect(asleep).toMatch(/^Asleep since .+\. It wakes when you type or press Wake\.$/);
    expect(stillWords(s({ state: "paused", paused_for: "person", state_reason: "it was paused by Mika" }), NOW)).toBe(
      "It was paused by Mika. Press Wake to continue.",
    );
  });
});

it("says who can raise what is used up", () => {
  expect(upgradeWords("budget", "E2B", false)).toContain("Ask an operator");
  expect(upgradeWords("quota", "E2B", true)).toContain("Raise it in E2B's dashboard");
});
