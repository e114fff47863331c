import { afterEach, expect, test, vi } from "vitest";
import { api } from "@/api/client";
import { ApiError } from "@/api/problem";
import { sayFirst } from "./first-prompt";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test("a first prompt with files waits until its session takes one", async () => {
  vi.useFakeTimers();
  const problem = (status: number, code: string) =>
    Promise.reject(new ApiError(status, { code, message: "Not yet.", request_id: "" }));
  const thread = { data: { id: "thr_1" } };
  const get = vi.spyOn(api, "GET");
  get.mockImplementationOnce((() => problem(404, "not_found")) as never).mockResolvedValue(thread as never);
  const send = vi.spyOn(api, "POST");
  send.mockImplementationOnce((() => problem(409, "session_not_running")) as never).mockResolvedValue({} as never);
  const done = sayFirst("ses_1", "Look.", [{ name: "a.png", data: "QQ==", size: 1, url: "" }]);
  await vi.runAllTimersAsync();
  await done;
  expect([get.mock.calls.length, send.mock.calls.length]).toEqual([3, 2]);
  expect(send).toHaveBeenLastCalledWith(
    "/threads/{id}/messages",
    expect.objectContaining({ body: { text: "Look.", attachments: [{ name: "a.png", data: "QQ==" }] } }),
  );
});
