import { expect, test } from "vitest";
import { commandIn } from "./command";

test("commands of the field", () => {
  expect(commandIn("/plan")).toEqual({ change: { mode: "plan" }, prompt: "" });
  expect(commandIn("/build now do it\nall")).toEqual({ change: { mode: "build" }, prompt: "now do it\nall" });
  expect(commandIn("/model gpt-5")).toEqual({ change: { model: "gpt-5" }, prompt: "" });
  expect(commandIn("/clear")).toEqual({ act: "clear", prompt: "" });
  expect(commandIn("/undo")).toEqual({ act: "undo", prompt: "" });
  for (const other of [
    "/etc/hosts is wrong",
    "/clear it all",
    "/undo that",
    "/deploy",
    "plan",
    "/model",
    "/model of the world",
  ])
    expect(commandIn(other)).toBeUndefined();
});
