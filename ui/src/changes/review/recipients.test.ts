import { describe, expect, test } from "vitest";
import type { Session } from "@/api/client";
import { byWork, reads } from "./recipients";

const session = (id: string, state: Session["state"], state_at: number, agent = "codex") =>
  ({ id, state, state_at, agent }) as Session;

describe("who a review goes to", () => {
  test("who works comes first, then who came to rest last", () => {
    const list = [
      session("old", "idle", 10),
      session("asks", "waiting", 30),
      session("busy", "working", 5),
      session("rests", "idle", 40),
    ];
    expect(byWork(list).map((s) => s.id)).toEqual(["busy", "rests", "asks", "old"]);
    expect(list[0]?.id).toBe("old");
  });
  test("shells and commands read none", () => {
    expect(["codex", "shell", "command", "setup"].filter((a) => reads(session("s", "idle", 1, a)))).toEqual(["codex"]);
  });
});
