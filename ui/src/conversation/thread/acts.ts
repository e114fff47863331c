import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { wakeFor } from "@/sandboxes/acts";
import { hasEnded } from "@/sessions/sessions";
import { toastError } from "@/state/toasts";
import type { Thread } from "./feed";

const once = () => ({ "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });

/** What people do in a conversation. */
export function useThreadActs(s: Session, thread: Thread | undefined) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });

  /** Sends a prompt; a session that has ended is resumed with it. */
  const send = useMutation({
    scope: { id: `send.${s.id}` }, // one after the other: the order they were written in
    mutationFn: async ({ text }: { text: string; failed: () => void }) => {
      if (!hasEnded(s) && thread) {
        await data(
          api.POST("/threads/{id}/messages", {
            params: { path: { id: thread.id }, header: once() },
            body: { text },
          }),
        );
        return s.id;
      }
      const prompt = await data(
        api.POST("/sessions/{id}/prompts", {
          params: { path: { id: s.id }, header: once() },
          body: { text, ...(hasEnded(s) ? { resume: true } : {}) },
        }),
      );
      return prompt.session_id;
    },
    onSuccess: async (session) => {
      wakeFor(client, s.workspace_id);
      if (session === s.id) return;
      await client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
      await navigate({ search: (x) => ({ ...x, session }) });
    },
    onError: (error, { failed }) => {
      failed();
      toastError("The prompt was not sent", error);
    },
  });

  const interrupt = useMutation({
    mutationFn: () => data(api.POST("/threads/{id}/interrupt", { params: { path: { id: thread!.id } } })),
    onError: (error) => toastError("The agent was not interrupted", error),
  });

  /** Changes the mode or the model, from the next turn on. */
  const set = useMutation({
    mutationFn: (change: { mode?: Thread["mode"]; model?: string }) =>
      data(
        api.POST("/sessions/{id}/prompts", {
          params: { path: { id: s.id }, header: once() },
          body: { text: change.mode ? `/${change.mode}` : `/model ${change.model}` },
        }),
      ),
    onError: (error) => toastError("Nothing was changed", error),
  });
  return { send, interrupt, set };
}
