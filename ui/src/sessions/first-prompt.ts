import { t } from "@lingui/core/macro";
import type { Attached } from "@/agents/attachments";
import { api, data } from "@/api/client";
import { ApiError } from "@/api/problem";
import { remember } from "@/state/remember";
import { toastError } from "@/state/toasts";

/** How often it is tried, and the time between. */
const TRIES = 240;
const PAUSE = 500; // ms

/**
 * Gives a session of Parawork's own agent that is starting a prompt with files, as soon as its conversation takes one. What cannot be sent
 * waits in the session's field. Returns whether it was sent.
 */
export async function sayFirst(session: string, text: string, files: readonly Attached[]): Promise<boolean> {
  try {
    for (let tries = 1; !(await said(session, text, files, tries === TRIES)); tries++)
      await new Promise((done) => setTimeout(done, PAUSE));
    return true;
  } catch (error) {
    keepUnsent(session, text);
    toastError(t`The prompt was not sent`, error);
    return false;
  }
}

/** Puts a text into the field of a session that is not shown yet. */
export const keepUnsent = (session: string, text: string) => remember(`draft.${session}`, text);

async function said(session: string, text: string, files: readonly Attached[], last: boolean): Promise<boolean> {
  try {
    const thread = await data(api.GET("/sessions/{id}/thread", { params: { path: { id: session } } }));
    await data(
      api.POST("/threads/{id}/messages", {
        params: { path: { id: thread.id }, header: { "Idempotency-Key": crypto.randomUUID?.() ?? `${Math.random()}` } },
        body: { text, attachments: files.map(({ name, data }) => ({ name, data })) },
      }),
    );
    return true;
  } catch (error) {
    // Its terminal has not connected yet.
    if (!last && error instanceof ApiError && (error.status === 404 || error.code === "session_not_running"))
      return false;
    throw error;
  }
}
