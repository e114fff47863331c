import { describe, expect, it } from "vitest";
import { actionWords, actorWords, asRole, dayOf, rolesToGive } from "./words";

describe("what was done", () => {
  it("reads as the rest of a sentence", () => {
    expect(actionWords("workspace.delete")).toBe("deleted workspace");
    expect(actionWords("agent_account.update")).toBe("changed agent account");
    expect(actionWords("user.sign_in")).toBe("signed in");
    expect(actionWords("thing.re_do")).toBe("re do thing");
    expect(actionWords("odd")).toBe("odd");
    expect(actionWords("member.remove")).toBe("removed member");
    expect(actionWords("member.remove", { left: "true" })).toBe("left the team:");
  });

  it("names who did it, or what they are", () => {
    expect(actorWords({ kind: "user", id: "usr_1", name: "ada@example.com" })).toBe("ada@example.com");
    expect(actorWords({ kind: "nobody", id: "", name: "" })).toBe("Not signed in");
    expect(actorWords({ kind: "command_line", id: "", name: "root" })).toBe("root, on the command line");
  });
});

describe("roles", () => {
  it("lets only owners make owners", () => {
    expect(rolesToGive("owner")).toEqual(["owner", "admin", "member", "viewer"]);
    expect(rolesToGive("admin")).toEqual(["admin", "member", "viewer"]);
    expect(asRole("admin")).toBe("as an admin");
    expect(asRole("viewer")).toBe("as a viewer");
  });
});

describe("days", () => {
  it("begin and end at midnight here", () => {
    const begin = dayOf("2026-03-29") ?? 0;
    const end = dayOf("2026-03-29", true) ?? 0;
    expect(new Date(begin).getHours()).toBe(0);
    expect(new Date(end).getDate()).toBe(30);
    expect(dayOf("")).toBeUndefined();
    expect(dayOf("tomorrow")).toBeUndefined();
  });
});
