import { expect, it } from "vitest";
import { fieldsOf, named, poolCostWords, sizeOf, valuesOf } from "./instance-api";

const setting = (name: string, more: object) => ({ name, label: name, type: "text" as const, locked: false, ...more });

const SETTINGS = [
  setting("api_key", { type: "secret", set: true, last_four: "wxyz" }),
  setting("default_cpus", { type: "number", value: 2, locked: true }),
  setting("default_memory_mb", { type: "number", value: 2048 }),
  setting("idle_minutes", { type: "number", value: 0, unit: "minutes" }),
  setting("domain", { value: "", group: "advanced" }),
];

it("folds what is rarely needed, and holds no secret", () => {
  expect(fieldsOf(SETTINGS).map((e) => ("fields" in e ? e.summary : "name" in e ? e.name : ""))).toEqual([
    "api_key",
    "default_cpus",
    "default_memory_mb",
    "idle_minutes",
    "Advanced",
  ]);
  expect(valuesOf(SETTINGS)).toEqual({
    api_key: "",
    default_cpus: 2,
    default_memory_mb: 2048,
    idle_minutes: 0,
    domain: "",
  });
});

it("makes one choice of cores and memory, and sends them apart", () => {
  expect(sizeOf(SETTINGS)).toEqual({ size: "2x2048", locked: true });
  expect(sizeOf(SETTINGS.slice(0, 2))).toBeUndefined();
  const size = { name: "size", label: "Size", type: "custom" as const };
  expect(fieldsOf(SETTINGS, size).slice(0, 3)).toMatchObject([
    { name: "api_key" },
    { name: "size" },
    { name: "idle_minutes" },
  ]);
  expect(named({ size: "4x4096", idle_minutes: 5 })).toEqual({
    default_cpus: 4,
    default_memory_mb: 4096,
    idle_minutes: 5,
  });
  expect(named({ domain: "" })).toEqual({ domain: "" });
});

it("tells what waits ahead of time costs", () => {
  expect(poolCostWords(100_800_000, 3)).toBe("3 ready at the default size: $0.30 an hour, about $220.75 a month.");
});
