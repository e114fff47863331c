import { describe, expect, it } from "vitest";
import { chordOf, normal, pretty } from "./chord";
import { actions, collide, collisions } from "./registry";

const press = (
  key: string,
  mods: Partial<Record<"ctrlKey" | "metaKey" | "altKey" | "shiftKey", boolean>> = {},
  code = "",
) => ({
  key,
  code,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...mods,
});

describe("key registry", () => {
  it("has no two actions on the same key where both can be active", () => {
    expect(collisions(actions)).toEqual([]);
  });

  it("has no action twice", () => {
    expect(new Set(actions.map((a) => a.id)).size).toBe(actions.length);
  });

  it("gives every terminal chord a modifier", () => {
    for (const a of actions.filter((x) => x.inTerminal)) for (const k of a.keys) expect(k, a.id).toContain("+");
  });

  it("sees a key that begins another's sequence as a collision", () => {
    expect(collide("g", "g p")).toBe(true);
    expect(collide("g p", "g")).toBe(true);
    expect(collide("g p", "g w")).toBe(false);
  });
});

describe("chordOf", () => {
  it.each([
    [press("k", { ctrlKey: true }), false, "mod+k"],
    [press("k", { metaKey: true }), true, "mod+k"],
    [press("k", { ctrlKey: true }), true, "ctrl+k"],
    [press("?", { shiftKey: true }), false, "?"],
    [press("E", { ctrlKey: true, shiftKey: true }), false, "mod+shift+e"],
    [press("ArrowDown", { ctrlKey: true, shiftKey: true }), false, "mod+shift+arrowdown"],
    [press("G", { shiftKey: true }), false, "g"],
    [press("л", { ctrlKey: true }, "KeyK"), false, "mod+k"],
    [press("Shift", { shiftKey: true }), false, ""],
    [press(" "), false, "space"],
  ])("%o", (e, mac, want) => {
    expect(chordOf(e, mac)).toBe(want);
  });

  it("matches the registry's writing", () => {
    expect(normal("ctrl+shift+e")).toBe("mod+shift+e");
    expect(pretty("ctrl+shift+e", false)).toBe("Ctrl Shift E");
    expect(pretty("mod+k", true)).toBe("⌘K");
    expect(pretty("g p", false)).toBe("g p");
  });
});
