import { t } from "@lingui/core/macro";
/** The error body of the API. */
export interface Problem {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  request_id: string;
}

/** A failed response. Status 0 means there was no response. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly requestId: string;

  constructor(status: number, problem: Problem) {
    super(problem.message);
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code;
    this.details = problem.details ?? {};
    this.requestId = problem.request_id;
  }
}

/** Reads the problem from a response. A response without one, such as a proxy's page, is described by its status. */
export async function problemOf(response: Response): Promise<ApiError> {
  try {
    const body: unknown = await response.json();
    if (isProblem(body)) return new ApiError(response.status, body);
  } catch {
    // not JSON
  }
  return new ApiError(response.status, {
    code: "unexpected_answer",
    message: byStatus(response.status),
    request_id: response.headers.get("X-Request-Id") ?? "",
  });
}

function isProblem(v: unknown): v is Problem {
  return (
    typeof v === "object" &&
    v !== null &&
    typeof (v as Problem).code === "string" &&
    typeof (v as Problem).message === "string"
  );
}

function byStatus(status: number): string {
  if (status === 413) return t`The server or a proxy before it refused this as too large.`;
  if (status === 429) return t`Too many requests. Wait a moment and try again.`;
  if (status === 502 || status === 503 || status === 504)
    return t`The server is starting, stopping or behind a proxy that cannot reach it. Try again in a moment.`;
  return t`The server answered ${status} without saying why. Try again. If it happens again, check the server's log.`;
}

/** An error as shown to the user. */
export interface Told {
  message: string;
  /** Output of another program, such as git, shown collapsed in monospace. */
  output: string;
  requestId: string;
  /** Whether a retry can help. */
  retry: boolean;
}

/** Turns an error into its displayed form. */
export function tell(error: unknown): Told {
  if (error instanceof ApiError) {
    const output = [error.details.output, error.details.git, error.details.stderr].find((v) => typeof v === "string");
    const wait = error.details.retry_after_ms;
    const message =
      error.status === 429 && typeof wait === "number"
        ? `${error.message} (${Math.ceil(wait / 1000)} s)`
        : error.message;
    return {
      message,
      output: typeof output === "string" ? output : "",
      requestId: error.requestId,
      retry: error.status === 0 || error.status >= 500 || error.status === 429 || error.status === 409,
    };
  }
  const message = error instanceof Error ? error.message : String(error);
  return {
    message: message || t`Something went wrong in the page. Reload it.`,
    output: "",
    requestId: "",
    retry: true,
  };
}

/** The message for one field of a form, where the server named it in details.field or details.fields. */
export function fieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.details.field === field) return error.message;
  const fields = error.details.fields;
  if (typeof fields === "object" && fields !== null) {
    const text = (fields as Record<string, unknown>)[field];
    if (typeof text === "string") return text;
  }
  return undefined;
}
