import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { cx } from "@/kit/cx";
import { Menu, MenuItem } from "@/kit/menu";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import type { Message, Thread } from "./feed";
import { textOf } from "./rows";
import { once, undoFrom } from "./undo";

/** What can be done with a message. */
export interface MessageActs {
  /** Writes a prompt anew: what came after it is undone. */
  edit: (m: Message) => void;
  /** Goes on in a new session: from before a prompt, which is asked again, or from after an answer. */
  fork: (from: Fork) => void;
  /** Undoes a prompt and what came after it, with what that changed in files. */
  undo: (m: Message) => void;
}

interface Fork {
  message: Message;
  /** In a new workspace, with the files as they were then. */
  workspace: boolean;
}

/** Forks a conversation at a message. */
export function useFork(s: Session, thread: Thread | undefined) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  return useMutation({
    mutationFn: async ({ message: m, workspace }: Fork) => {
      if (workspace) toast({ title: t`Making a workspace with the files as they were then…` });
      const { session } = await data(
        api.POST("/threads/{id}/fork", {
          params: { path: { id: thread!.id }, header: once() },
          body: {
            message_id: m.id,
            ...(m.role === "user" && textOf(m) ? { text: textOf(m) } : {}),
            ...(workspace ? { workspace } : {}),
          },
        }),
      );
      if (!workspace) return { session, key: undefined };
      const made = await data(api.GET("/workspaces/{id}", { params: { path: { id: session.workspace_id } } }));
      return { session, key: made.key };
    },
    onSuccess: async ({ session, key }) => {
      await client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
      if (key) await navigate({ params: (p) => ({ ...p, key }), search: { session: session.id } });
      else await navigate({ search: (x) => ({ ...x, session: session.id }) });
    },
    onError: (error) => toastError(t`The conversation was not forked`, error),
  });
}

/** Undoes a turn with its files, once the person has seen what that changes. */
export function useUndo(thread: Thread | undefined) {
  return useMutation({
    mutationFn: (m: Message) =>
      undoFrom(thread!.id, m.id, ({ messages, changed }) => {
        const files =
          changed.length > 0 ? t` and changes of ${plural(changed.length, { one: "# file", other: "# files" })}` : "";
        return confirm({
          title: t`Undo from this prompt on?`,
          body: t`This undoes ${plural(messages, { one: "# message", other: "# messages" })}${files}. ${changed.slice(0, 8).join(", ")}${changed.length > 8 ? "…" : ""}`,
          action: t`Undo`,
        });
      }),
    onSuccess: (done) => {
      if (done?.safety_snapshot)
        toast({
          title: t`Undone`,
          text: t`To have the files back, restore the snapshot from before it in the timeline.`,
        });
    },
    onError: (error) => toastError(t`Nothing was undone`, error),
  });
}

const LINK = "min-h-6 text-accent hover:underline pointer-coarse:min-h-11";

const HIDDEN =
  "opacity-0 group-focus-within/row:opacity-100 group-hover/row:opacity-100 pointer-coarse:opacity-100 has-[[aria-expanded=true]]:opacity-100";

/** The buttons beside a prompt: seen where the pointer or the focus is. */
export function PromptButtons({ message, acts }: { message: Message; acts: MessageActs }) {
  return (
    <span className={cx("flex gap-2", HIDDEN)}>
      <button
        type="button"
        title={t`Write it anew. What came after it is undone`}
        onClick={() => acts.edit(message)}
        className={LINK}
      >
        <Trans>Edit</Trans>
      </button>
      <ForkMenu message={message} acts={acts} hint={t`It is asked again there.`} />
      <button
        type="button"
        title={t`Undo it and what came after it, with what that changed in files`}
        onClick={() => acts.undo(message)}
        className={LINK}
      >
        <Trans>Undo</Trans>
      </button>
    </span>
  );
}

/** The button beside an answer. */
export function AnswerButtons({ message, acts }: { message: Message; acts: MessageActs }) {
  return (
    <span className={HIDDEN}>
      <ForkMenu message={message} acts={acts} hint={t`Continues from here.`} />
    </span>
  );
}

function ForkMenu({ message, acts, hint }: { message: Message; acts: MessageActs; hint: string }) {
  const team = useTeam();
  return (
    <Menu
      trigger={
        <button type="button" title={t`Continue from here in a new session`} className={LINK}>
          <Trans>Fork</Trans>
        </button>
      }
    >
      <MenuItem onSelect={() => acts.fork({ message, workspace: false })} hint={t`With the files as they are. ${hint}`}>
        <Trans>Fork here</Trans>
      </MenuItem>
      {team.can("workspace.create") && (
        <MenuItem
          onSelect={() => acts.fork({ message, workspace: true })}
          hint={t`On a branch of its own, with the files as they were. ${hint}`}
        >
          <Trans>Fork into a new workspace</Trans>
        </MenuItem>
      )}
    </Menu>
  );
}
