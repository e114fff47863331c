import { expect, test } from "vitest";
import { refusal } from "./attachments";

test("what a prompt cannot take is refused before it is read", () => {
  const file = (size: number) => ({ name: "a.png", size });
  expect(refusal([], [file(1), file(10 << 20)])).toBe("");
  expect(refusal([], [file((10 << 20) + 1)])).toBe("a.png is larger than 10 MiB.");
  expect(refusal([], [file(0)])).toBe("a.png is empty.");
  expect(refusal(Array(9).fill(file(1)), [file(1), file(1)])).toBe("A prompt takes at most 10 files.");
  expect(refusal([file(10 << 20), file(9 << 20)], [file(2 << 20)])).toBe("A prompt takes at most 20 MiB of files.");
});
