import type { MouseEvent } from "react";
import { expect, test, vi } from "vitest";
import { firstClick } from "./button";

test("a double click does once what was asked for, and sends no form again", () => {
  const act = vi.fn();
  const click = firstClick(act);
  const event = (detail: number, timeStamp: number) =>
    ({ detail, timeStamp, preventDefault: vi.fn() }) as unknown as MouseEvent<HTMLButtonElement>;
  const first = event(1, 100);
  const second = event(2, 200);
  click(first);
  click(second);
  expect(act).toHaveBeenCalledTimes(1);
  expect(first.preventDefault).not.toHaveBeenCalled();
  expect(second.preventDefault).toHaveBeenCalled();
  click(event(0, 300)); // Enter and Space have no count
  expect(act).toHaveBeenCalledTimes(2);
  click(event(2, 5000)); // nothing got the first of these
  expect(act).toHaveBeenCalledTimes(3);
});
