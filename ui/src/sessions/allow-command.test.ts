import { afterEach, expect, test, vi } from "vitest";
import { api } from "@/api/client";
import { ApiError } from "@/api/problem";
import { toasts } from "@/state/toasts";
import { offerToAllow } from "./allow-command";

const refusal = (details: Record<string, unknown>, code = "command_not_allowed") =>
  new ApiError(403, { code, message: "No.", details, request_id: "" });

afterEach(() => {
  vi.restoreAllMocks();
  toasts.set([]);
});

test("one click allows the program for the project, beside those it has", async () => {
  const project = { data: { name: "App", allowed_commands: ["git"] }, response: new Response() } as never;
  vi.spyOn(api, "GET").mockResolvedValue(project);
  const patch = vi.spyOn(api, "PATCH").mockResolvedValue(project);
  offerToAllow(refusal({ program: "make", project_id: "prj_1" }));
  toasts.get()[0]?.actions?.[0]?.run();
  await vi.waitFor(() => expect(toasts.get().at(-1)?.title).toBe("make is allowed in App"));
  expect(patch.mock.calls[0]?.[1]).toMatchObject({ body: { allowed_commands: ["git", "make"] } });
});

test("nothing is offered where allowing a program would not help", () => {
  offerToAllow(refusal({}));
  offerToAllow(refusal({ program: "make", project_id: "prj_1" }, "forbidden"));
  offerToAllow(new Error("No connection"));
  expect(toasts.get()).toEqual([]);
});
