import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Attached } from "@/agents/attachments";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { wakeFor } from "@/sandboxes/acts";
import { sayFirst } from "@/sessions/first-prompt";
import { hasEnded } from "@/sessions/sessions";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";
import { commandIn } from "./command";
import type { Thread } from "./feed";
import { once, undoFrom } from "./undo";

interface Said {
  text: string;
  /** The ID of the prompt whose place it takes. */
  replaces?: string | undefined;
  files?: readonly Attached[];
  failed: () => void;
}

/** What people do in a conversation. */
export function useThreadActs(s: Session, thread: Thread | undefined) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });

  /** Sends a prompt; a session that has ended is resumed with it. */
  const send = useMutation({
    scope: { id: `send.${s.id}` }, // one after the other: the order they were written in
    mutationFn: async ({ text, replaces, files }: Said) => {
      if (!hasEnded(s) && thread) {
        const path = { id: thread.id };
        const command = commandIn(text);
        if (command?.change) await data(api.PATCH("/threads/{id}", { params: { path }, body: command.change }));
        if (command?.act === "compact") await compactThread(thread.id);
        if (command?.act === "clear") await clearThread(thread.id);
        if (command?.act === "undo") await undoFrom(thread.id);
        const prompt = command ? command.prompt : text;
        const attachments = files?.map(({ name, data }) => ({ name, data }));
        if (prompt || attachments?.length)
          await data(
            api.POST("/threads/{id}/messages", {
              params: { path, header: once() },
              body: {
                text: prompt,
                ...(replaces ? { replaces } : {}),
                ...(attachments?.length ? { attachments } : {}),
              },
            }),
          );
        return s.id;
      }
      if (files?.length) {
        const next = await data(api.POST("/sessions/{id}/resume", { params: { path: { id: s.id } } }));
        void sayFirst(next.id, text, files);
        return next.id;
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
      toastError(t`The prompt was not sent`, error);
    },
  });

  const interrupt = useMutation({
    mutationFn: () => data(api.POST("/threads/{id}/interrupt", { params: { path: { id: thread!.id } } })),
    onError: (error) => toastError(t`The agent was not interrupted`, error),
  });

  /** Has the agent summarize the conversation. */
  const compact = useMutation({
    mutationFn: () => compactThread(thread!.id),
    onError: (error) => toastError(t`The conversation was not compacted`, error),
  });

  /** Has the model forget the conversation, once the person has agreed. */
  const clear = useMutation({
    mutationFn: async () => {
      const yes = await confirm({
        title: t`Clear the conversation for the model?`,
        body: t`The agent forgets what is above. You can still read it, and files stay as they are.`,
        action: t`Clear`,
      });
      if (yes) await clearThread(thread!.id);
    },
    onError: (error) => toastError(t`The conversation was not cleared`, error),
  });

  /** Changes the mode or the model, from the next turn on. */
  const set = useMutation({
    mutationFn: (change: { mode?: Thread["mode"]; model?: string }) =>
      data(api.PATCH("/threads/{id}", { params: { path: { id: thread!.id } }, body: change })),
    onError: (error) => toastError(t`Nothing was changed`, error),
  });
  return { send, interrupt, compact, clear, set };
}

const compactThread = (id: string) => data(api.POST("/threads/{id}/compact", { params: { path: { id } } }));
const clearThread = (id: string) => data(api.POST("/threads/{id}/clear", { params: { path: { id } } }));
