import { t } from "@lingui/core/macro";
import { ApiError, problemOf } from "./problem";

/** Where the API is. */
export const BASE = "/api/v1";

/** Sends a request, and turns every failure into an ApiError. */
export async function answered(
  request: Request,
  by: (request: Request) => Promise<Response> = fetch,
): Promise<Response> {
  let response: Response;
  try {
    response = await by(request);
  } catch (cause) {
    if (request.signal.aborted) throw cause;
    throw new ApiError(0, {
      code: "network",
      message: t`The server cannot be reached. Check your connection; Parawork retries automatically.`,
      request_id: "",
    });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** A call without the generated client, for pages that must be small: GET, or POST with a body. The path is below /api/v1. */
export async function bare<T>(path: string, body?: unknown): Promise<T> {
  const request = new Request(new URL(BASE + path, location.origin), {
    method: body === undefined ? "GET" : "POST",
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return (await (await answered(request)).json()) as T;
}
