import { ApiError, fieldError } from "@/api/problem";

/** What is wrong with a new password, for below its field; undefined when the refusal is about something else. */
export function newPasswordError(error: unknown): string | undefined {
  if (error instanceof ApiError && error.code === "weak_password") return error.message;
  return fieldError(error, "new_password") ?? fieldError(error, "password");
}
