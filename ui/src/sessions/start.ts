import { api, data, type Schemas, type Session } from "@/api/client";
import { noteProblem } from "@/sandboxes/problem";
import { isCoarse } from "@/state/look";
import { offerToAllow } from "./allow-command";

/** Starts a session, sized for this window; on a phone the server's own size is kept. */
export function startSession(
  workspaceId: string,
  body: Omit<Schemas["NewSession"], "cols" | "rows">,
  idempotencyKey: string = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`,
): Promise<Session> {
  const started = data(
    api.POST("/workspaces/{id}/sessions", {
      params: { path: { id: workspaceId }, header: { "Idempotency-Key": idempotencyKey } },
      body: {
        agent: body.agent,
        ...(body.prompt?.trim() || body.from_session ? { prompt: body.prompt ?? "" } : {}),
        ...(body.argv?.length ? { argv: body.argv } : {}),
        ...(body.account_id ? { account_id: body.account_id } : {}),
        ...(body.permissions ? { permissions: body.permissions } : {}),
        ...(body.confirm_no_boundary ? { confirm_no_boundary: true } : {}),
        ...(body.env ? { env: body.env } : {}),
        ...(body.from_session ? { from_session: body.from_session, stop_from_session: body.stop_from_session } : {}),
        ...(isCoarse() ? {} : guessSize()),
      },
    }),
  );
  started.catch((error) => {
    noteProblem(workspaceId, error);
    offerToAllow(error);
  });
  return started;
}

/** What the terminal of this window will hold, so that a program draws its first screen in the right size. */
export function guessSize(): { cols: number; rows: number } {
  const pane = document.querySelector("#main")?.getBoundingClientRect();
  const width = (pane?.width ?? innerWidth) - 30;
  const height = (pane?.height ?? innerHeight) - 150;
  return {
    cols: Math.max(40, Math.min(400, Math.floor(width / 7.8))),
    rows: Math.max(10, Math.min(200, Math.floor(height / 17))),
  };
}
