import { expect, test } from "vitest";
import { mb, memory } from "@/format/size";
import { sentence } from "@/format/text";
import { minutes } from "@/format/time";
import { limitsInWords } from "./words";

test("limits in one line name only what is bound", () => {
  expect(limitsInWords({ cpus: 2, memory_mb: 2048, processes: 512, disk_mb: 10240, wall_minutes: 480 })).toBe(
    "2 cores, 2 GB of memory, 512 processes, 10 GB of disk, 8 hours",
  );
  expect(limitsInWords({ cpus: 1, memory_mb: 0, processes: 0, disk_mb: 0, wall_minutes: 0 })).toBe("1 core");
  expect(limitsInWords({ cpus: 0, memory_mb: 0, processes: 0, disk_mb: 0, wall_minutes: 0 })).toBe("no limits");
});

test("sizes and times as people say them", () => {
  expect([mb(512), mb(2048), mb(1536)]).toEqual(["512 MB", "2 GB", "1.5 GB"]);
  expect([memory(340 << 20), memory(1.25 * 2 ** 30)]).toEqual(["340 MB", "1.3 GB"]);
  expect([minutes(45), minutes(60), minutes(2880), minutes(1)]).toEqual(["45 minutes", "1 hour", "2 days", "1 minute"]);
});

test("words of a server as sentences", () => {
  expect([sentence("it is switched off"), sentence("Set it."), sentence(" ")]).toEqual([
    "It is switched off.",
    "Set it.",
    "",
  ]);
});
