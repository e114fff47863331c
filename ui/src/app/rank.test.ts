import { expect, it } from "vitest";
import { ranked } from "./rank";

const all = [
  { id: "w1", title: "Fix the login form", words: "PW-12 fix-login demo local Working" },
  { id: "w2", title: "Upgrade React", words: "PW-7 upgrade-react web docker Idle" },
  { id: "s1", title: "Security", words: "settings You password second factor 2fa passkey" },
  { id: "a1", title: "Search in files", words: "Workspace action" },
  { id: "a2", title: "Settings", words: "Go to action" },
];
const ids = (typed: string, recent: string[] = []) => ranked(typed, all, recent, 5).map((r) => r.id);

it("finds by any word, the title first", () => {
  expect(ids("2fa")).toEqual(["s1"]);
  expect(ids("pw-7")).toEqual(["w2"]);
  expect(ids("settings")[0]).toBe("a2");
  expect(ids("settings pass")).toEqual(["s1"]);
  expect(ids("ur")[0]).toBe("w2");
  expect(ids("login demo")).toEqual(["w1"]);
  expect(ids("nowhere")).toEqual([]);
});

it("puts what was chosen last before its equals, not before what fits far better", () => {
  expect(ids("s", ["s1"])[0]).toBe("s1");
  expect(ids("search", ["s1", "w1"])[0]).toBe("a1");
});
