import { describe, expect, it } from "vitest";
import { keyboardWish } from "./codec";
import { parseKeyboard } from "./keyboard";
import { arrivals, people } from "./presence";
import { parseState } from "./state";

const seat = (id: string, userId: string, name: string, writer = true) => ({ id, userId, name, writer });

describe("presence", () => {
  it("shows a person once, with the rights of their strongest screen", () => {
    expect(people([seat("v1", "a", "Ana", false), seat("v2", "b", "Bo", false), seat("v3", "a", "Ana")])).toEqual([
      { userId: "a", name: "Ana", writer: true },
      { userId: "b", name: "Bo", writer: false },
    ]);
  });

  it("says who came and who left, but not oneself", () => {
    const [a, b, c] = people([seat("v1", "a", "Ana"), seat("v2", "b", "Bo"), seat("v3", "me", "Me")]);
    if (!a || !b || !c) throw new Error("three people");
    expect(arrivals([c], [c, a], "me")).toBe("Ana is watching");
    expect(arrivals([c], [c, a, b], "me")).toBe("Ana and Bo are watching");
    expect(arrivals([c, a], [c, b], "me")).toBe("Bo is watching. Ana left");
    expect(arrivals([], [c], "me")).toBe("");
  });
});

describe("keyboard", () => {
  it("reads who holds it and who asks, and nothing else as nobody", () => {
    const k = {
      user_id: "a",
      name: "Ana",
      since: 5,
      mine: false,
      asking: [{ user_id: "b", name: "Bo" }, { name: "x" }],
    };
    expect(parseKeyboard(k)).toEqual({
      userId: "a",
      name: "Ana",
      since: 5,
      mine: false,
      asking: [{ userId: "b", name: "Bo" }],
    });
    for (const nobody of [null, undefined, {}, 7, { user_id: 3 }]) expect(parseKeyboard(nobody)).toBeUndefined();
    const s = parseState({ keyboard: k, may_take: true, writer_at: 9, viewers: [] });
    expect([s.keyboard?.name, s.mayTake, s.writerAt]).toEqual(["Ana", true, 9]);
  });

  it("sends wishes as JSON behind their byte", () => {
    const frame = keyboardWish({ do: "give", to: "usr_é" });
    expect(frame[0]).toBe(5);
    expect(JSON.parse(new TextDecoder().decode(frame.slice(1)))).toEqual({ do: "give", to: "usr_é" });
  });
});
