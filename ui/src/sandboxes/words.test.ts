import { expect, test } from "vitest";
import { limitsInWords } from "./words";

test("limits in one line name only what is bound", () => {
  expect(limitsInWords({ cpus: 2, memory_mb: 2048, processes: 512, disk_mb: 10240, wall_minutes: 480 })).toBe(
    "2 cores, 2 GB of memory, 512 processes, 10 GB of disk, 8 hours",
  );
  expect(limitsInWords({ cpus: 1, memory_mb: 0, processes: 0, disk_mb: 0, wall_minutes: 0 })).toBe("1 core");
  expect(limitsInWords({ cpus: 0, memory_mb: 0, processes: 0, disk_mb: 0, wall_minutes: 0 })).toBe("no limits");
});
