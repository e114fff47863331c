import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { plural } from "@/format/text";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import type { Message, Thread } from "./feed";
import { textOf } from "./rows";
import { once, undoFrom } from "./undo";

/** What can be done with a prompt that was sent. */
export interface PromptActs {
  /** Writes it anew: what came after it is undone. */
  edit: (m: Message) => void;
  /** Goes on from before it in a new session. */
  fork: (m: Message) => void;
  /** Undoes it and what came after it, with what that changed in files. */
  undo: (m: Message) => void;
}

/** Forks a conversation at a prompt: the new session begins with the prompt again. */
export function useFork(s: Session, thread: Thread | undefined) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  return useMutation({
    mutationFn: (m: Message) =>
      data(
        api.POST("/threads/{id}/fork", {
          params: {
            path: { id: thread!.id },
            header: once(),
          },
          body: { message_id: m.id, text: textOf(m) },
        }),
      ),
    onSuccess: async (made) => {
      await client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
      await navigate({ search: (x) => ({ ...x, session: made.session.id }) });
    },
    onError: (error) => toastError("The conversation was not forked", error),
  });
}

/** Undoes a turn with its files, once the person has seen what that changes. */
export function useUndo(thread: Thread | undefined) {
  return useMutation({
    mutationFn: (m: Message) =>
      undoFrom(thread!.id, m.id, ({ messages, changed }) => {
        const files = changed.length > 0 ? ` and changes of ${plural(changed.length, "file")}` : "";
        return confirm({
          title: "Undo from this prompt on?",
          body: `This undoes ${plural(messages, "message")}${files}. ${changed.slice(0, 8).join(", ")}${changed.length > 8 ? "…" : ""}`,
          action: "Undo",
        });
      }),
    onSuccess: (done) => {
      if (done?.safety_snapshot)
        toast({
          title: "Undone",
          text: "To have the files back, restore the snapshot from before it in the timeline.",
        });
    },
    onError: (error) => toastError("Nothing was undone", error),
  });
}

const LINK = "min-h-6 text-accent hover:underline pointer-coarse:min-h-11";

/** The buttons beside a prompt: seen where the pointer or the focus is. */
export function PromptButtons({ message, acts }: { message: Message; acts: PromptActs }) {
  return (
    <span className="flex gap-2 opacity-0 group-focus-within/prompt:opacity-100 group-hover/prompt:opacity-100 pointer-coarse:opacity-100">
      <button
        type="button"
        title="Write it anew. What came after it is undone"
        onClick={() => acts.edit(message)}
        className={LINK}
      >
        Edit
      </button>
      <button type="button" title="Ask it again in a new session" onClick={() => acts.fork(message)} className={LINK}>
        Fork
      </button>
      <button
        type="button"
        title="Undo it and what came after it, with what that changed in files"
        onClick={() => acts.undo(message)}
        className={LINK}
      >
        Undo
      </button>
    </span>
  );
}
