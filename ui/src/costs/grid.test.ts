import { describe, expect, it } from "vitest";
import type { Quota, QuotaRow } from "./api";
import { asPlan, COLUMNS, changes, edit, fromPlan, paste, read, setAll, show, textOf } from "./grid";

const plan: Quota = {
  hours_month: 100,
  concurrent: 10,
  concurrent_team: 50,
  cpus: 2,
  memory_mb: 8192,
  session_minutes: null,
  creations_hour: 120,
  seats: null,
};

const row = (id: string, override: Partial<Quota> = {}): QuotaRow => ({
  user: { id, name: id },
  plan,
  override,
  effective: { ...plan, ...override },
  used: { hours_ms: 0, reserved_ms: 0, running: 0 },
  by_operator: [],
  percent: 0,
  exhausted_at: null,
  resets_at: 0,
});

const [hours, , , memory, minutes] = COLUMNS as [
  (typeof COLUMNS)[number],
  (typeof COLUMNS)[number],
  (typeof COLUMNS)[number],
  (typeof COLUMNS)[number],
  (typeof COLUMNS)[number],
];

describe("a cell", () => {
  it("reads what people type", () => {
    expect(read(hours, " 40 ")).toBe(40);
    expect(read(hours, "1,200")).toBe(1200);
    expect(read(hours, "")).toBe("plan");
    expect(read(hours, "No limit")).toBeNull();
    expect(read(hours, "∞")).toBeNull();
    expect(read(memory, "0.5")).toBe(512);
    expect(read(memory, "2 GB")).toBe(2048);
    expect(read(memory, "768 MB")).toBe(768);
    for (const bad of ["-1", "ten", "4.5", "999999"]) expect(read(hours, bad)).toBeUndefined();
  });

  it("shows what it reads", () => {
    expect(show(memory, 2048)).toBe("2");
    expect(read(memory, show(memory, 768))).toBe(768);
    expect(read(minutes, show(minutes, null))).toBeNull();
    expect([fromPlan(hours, plan), fromPlan(minutes, plan)]).toEqual(["100", "no limit"]);
  });
});

describe("the grid", () => {
  const rows = [row("ada"), row("bob", { hours_month: 20, cpus: null }), row("cy")];

  it("tells the plan from what was said by hand", () => {
    expect(rows.map((r) => textOf(r, hours, {}))).toEqual(["", "20", ""]);
    expect(textOf(rows[1]!, COLUMNS[2]!, {})).toBe("no limit");
  });

  it("takes back an edit that changes nothing", () => {
    const e = edit({}, rows[1]!, hours, "30");
    expect(edit(e, rows[1]!, hours, "20")).toEqual({});
  });

  it("takes a block from a spreadsheet", () => {
    const e = paste({}, rows, 1, 0, "40\t2\r\n50\t\t8\n60\t1\n");
    expect(changes(e, rows)).toEqual([
      { user_id: "bob", hours_month: 40, concurrent: 2 },
      { user_id: "cy", hours_month: 50, cpus: 8 },
    ]);
  });

  it("sets several at once, and gives them back to the plan", () => {
    const e = setAll({}, rows, hours, "25");
    expect(changes(e, rows)?.map((c) => c.hours_month)).toEqual([25, 25, 25]);
    expect(changes(asPlan(e, rows), rows)).toEqual([{ user_id: "bob", inherit: ["hours_month", "cpus"] }]);
  });

  it("says nothing while a cell is wrong", () => {
    expect(changes(edit({}, rows[0]!, hours, "many"), rows)).toBeUndefined();
  });
});
