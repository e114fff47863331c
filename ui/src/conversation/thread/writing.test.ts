import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { type Delta, NOTHING, viewed, written } from "./writing";

const delta = (more: Partial<Delta>): Delta => ({
  message_id: "m",
  part: 0,
  kind: "text",
  offset: 0,
  text: "",
  tool: "",
  ...more,
});

const view = (state: Schemas["ThreadMessage"]["state"]) =>
  ({ messages: [{ id: "m", state }] }) as unknown as Schemas["ThreadView"];

test("pieces make the parts of a message", () => {
  let w = written(NOTHING, delta({ text: "It is " }));
  w = written(w, delta({ text: "grün", offset: 6 }));
  w = written(w, delta({ text: ".", offset: 11 })); // offsets count bytes
  w = written(w, delta({ part: 2, kind: "tool_call", tool: "file_read", text: "{" }));
  expect(w).toEqual({
    id: "m",
    parts: [
      { kind: "text", text: "It is grün.", tool: "" },
      { kind: "text", text: "", tool: "" },
      { kind: "tool_call", text: "{", tool: "file_read" },
    ],
  });
});

test("a stream that is opened anew begins the part anew", () => {
  const w = written(written(NOTHING, delta({ text: "It is " })), delta({ text: "It is green" }));
  expect(w.parts[0]?.text).toBe("It is green");
});

test("another message takes the place of the last one", () => {
  const w = written(written(NOTHING, delta({ text: "One" })), delta({ message_id: "n", text: "Two" }));
  expect(w).toEqual({ id: "n", parts: [{ kind: "text", text: "Two", tool: "" }] });
});

test("a message that is complete, or was given up, is shown as the view has it", () => {
  const w = written(NOTHING, delta({ text: "It is" }));
  expect(viewed(w, view("discarded"))).toBe(NOTHING);
  expect(viewed(w, view("complete"))).toBe(NOTHING);
  expect(viewed(w, view("streaming"))).toBe(w);
});
