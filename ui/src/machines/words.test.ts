import { describe, expect, it } from "vitest";
import type { Workspace } from "@/api/client";
import type { Connection, Machine } from "./api";
import { onDangerous } from "./danger";
import {
  connectionWords,
  likelyPlatform,
  loadWords,
  machineStands,
  modeWords,
  ownerLimits,
  runLine,
  sortMachines,
  systemWords,
} from "./words";

const NOW = new Date(2027, 1, 3, 15, 30).getTime();
const TWO = new Date(2027, 1, 3, 14, 2).getTime();

const machine = (over: Partial<Machine> = {}) =>
  ({
    id: "m1",
    name: "Work Laptop",
    state: "online",
    available: true,
    reason: "",
    mode: "docker",
    image: "ubuntu:latest",
    os: "linux",
    arch: "amd64",
    release: "Debian GNU/Linux 12",
    offline_at: null,
    offline_reason: "",
    memory_mb: 16_384,
    load: { cpu: 0.424, memory_used_mb: 6144, disk_free_mb: 51_200, sandboxes: 2, waiting_answer: 0 },
    mine: true,
    share: "owner",
    created_at: 1,
    ...over,
  }) as Machine;

describe("a machine", () => {
  it("is online, or says why it takes no work", () => {
    expect(machineStands(machine(), NOW)).toEqual({ mark: "merged", word: "Online", text: "" });
    const sick = machineStands(machine({ available: false, reason: "Docker does not answer" }), NOW);
    expect(sick).toEqual({ mark: "needs", word: "Online, accepts no work", text: "Docker does not answer" });
  });
  it("says since when it is offline, and why", () => {
    const off = machine({ state: "offline", offline_at: TWO, offline_reason: "stopped with Ctrl-C" });
    expect(machineStands(off, NOW).text).toMatch(/^since .*2:02.*: stopped with Ctrl-C$/);
    expect(machineStands(machine({ state: "offline" }), NOW).text).toBe("not connected yet");
    expect(machineStands(machine({ state: "revoked" }), NOW).word).toBe("Revoked");
  });
  it("is described by its system and how it runs agents", () => {
    expect(systemWords(machine())).toBe("Debian GNU/Linux 12, amd64");
    expect(systemWords(machine({ os: "darwin", arch: "arm64", release: "" }))).toBe("macOS, arm64");
    expect([modeWords(machine()), modeWords(machine({ mode: "direct" }))]).toEqual([
      "Docker, ubuntu:latest",
      "Directly on the machine",
    ]);
    expect(loadWords(machine())).toBe("42 % CPU, 6 GB of 16 GB");
    const full = machine({ load: { ...machine().load, disk_free_mb: 900 } });
    expect(loadWords(full)).toBe("42 % CPU, 6 GB of 16 GB, 900 MB of disk left");
  });
  it("has the limits its owner set, in words", () => {
    const none = { sandboxes: 0, cpus: 0, memory_mb: 0, disk_mb: 0, processes: 0 };
    expect(ownerLimits(none)).toBe("none");
    expect(ownerLimits({ ...none, sandboxes: 3, cpus: 1, memory_mb: 2048 })).toBe(
      "3 workspaces at once, 1 core each, 2 GB of memory each",
    );
  });
  it("stands with its owner's others, those that are connected first", () => {
    const list = [
      machine({ id: "a", name: "Zed", state: "offline" }),
      machine({ id: "b", name: "Yak" }),
      machine({ id: "c", name: "Shared", mine: false, share: "team" }),
      machine({ id: "d", name: "Private", mine: false }),
    ];
    expect(sortMachines(list).map((g) => [g.title, g.items.map((m) => m.id).join("")])).toEqual([
      ["Yours", "ba"],
      ["Shared with the team", "c"],
      ["Of other members", "d"],
    ]);
  });
  it("tells how its connections ended", () => {
    const c = { ended_at: null, reason: "" } as Connection;
    expect(connectionWords(c)).toBe("connected now");
    expect(connectionWords({ ...c, ended_at: TWO, reason: "no heartbeat for 25 s" })).toBe("no heartbeat for 25 s");
    expect(connectionWords({ ...c, ended_at: TWO })).toBe("the connection ended");
  });
});

describe("connecting", () => {
  it("offers the program of the machine one most likely sits at", () => {
    expect(likelyPlatform("MacIntel", "")).toBe("darwin-arm64");
    expect(likelyPlatform("Linux aarch64", "")).toBe("linux-arm64");
    expect(likelyPlatform("Linux x86_64", "")).toBe("linux-amd64");
    expect(likelyPlatform("Win32", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)")).toBe("linux-amd64");
  });
  it("runs the program that was just downloaded", () => {
    expect(runLine("parawork runner --server https://x --token t")).toBe(
      "./parawork runner --server https://x --token t",
    );
  });
});

describe("a workspace on a machine", () => {
  const w = { executor: "runner", runner_id: "m1", runner_name: "Work Laptop", boundary: "none" } as Workspace;

  it("is marked where nothing isolates it", () => {
    expect([onDangerous(w), onDangerous({ ...w, boundary: "container" }), onDangerous({ boundary: "none" })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
