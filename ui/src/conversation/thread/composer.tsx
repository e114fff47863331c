import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type KeyboardEvent, type RefObject, useRef, useState } from "react";
import { AttachButton, AttachedList, takesFiles, useAttachments } from "@/agents/attach";
import type { Attached } from "@/agents/attachments";
import type { Session } from "@/api/client";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { useDraft } from "@/sessions/draft";
import { hasEnded } from "@/sessions/sessions";
import { isCoarse } from "@/state/look";
import { useThreadActs } from "./acts";
import { ContextFill, ModeChoice, ModelChoice } from "./choices";
import { CompletionList, useCompletion } from "./completion";
import type { Conversation, Message } from "./feed";
import { textOf } from "./rows";
import { StateLine } from "./state-line";

interface Props {
  session: Session;
  conversation: Conversation;
  may: boolean;
  /** The prompt that is written anew. */
  replaced: Message | undefined;
  onReplaced: () => void;
}

/** What the agent does, and the field to write to it. */
export function Composer({ session: s, conversation, may, replaced, onReplaced }: Props) {
  const { thread } = conversation;
  const draft = useDraft(s.id);
  const anew = useState(() => (replaced ? textOf(replaced) : ""));
  const [text, setText] = replaced ? anew : draft;
  const box = useRef<HTMLTextAreaElement>(null);
  const acts = useThreadActs(s, thread);
  const ended = hasEnded(s);
  const resumes = ended && s.can_resume;
  const works = !ended && (thread?.state === "working" || thread?.state === "waiting");
  const ready = may && (resumes ? !acts.send.isPending : !ended && thread !== undefined);
  const completion = useCompletion(ended ? undefined : thread, text, setText);
  const earlier = useEarlier(conversation, text, setText);

  const files = useAttachments(!ended || resumes);
  const say = (words: string, sent: readonly Attached[] = []) =>
    acts.send.mutate({
      text: words,
      files: sent,
      failed: () => {
        setText((now) => (now.trim() ? `${words}\n\n${now}` : words)); // nothing written is lost
        files.set((now) => [...sent, ...now]);
      },
    });
  const some = text.trim() !== "" || files.list.length > 0;
  const go = () => {
    if (!some || !ready) return;
    if (replaced) {
      // It stays in the field until it has taken the place of the other.
      acts.send.mutate({ text, replaces: replaced.id, files: files.list, failed: () => {} }, { onSuccess: onReplaced });
      return;
    }
    say(text, files.list);
    files.set(() => []);
    setText("");
    earlier.reset();
  };
  const interrupt = () => acts.interrupt.mutate();
  useAction("prompt.write", () => box.current?.focus(), may);
  useAction("session.interrupt", interrupt, may && works);
  const rests = may && !ended && thread !== undefined && !works && !acts.send.isPending;
  useAction("conversation.compact", () => acts.compact.mutate(), rests);
  useAction("conversation.clear", () => acts.clear.mutate(), rests);

  const onKey = (e: KeyboardEvent<HTMLTextAreaElement>) => {
    if (e.nativeEvent.isComposing || completion.onKey(e)) return;
    // A phone's keyboard has no Shift+Enter: there the button sends.
    if (e.key === "Enter" && !e.shiftKey && !e.altKey && (!isCoarse() || e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      go();
    } else if (e.key === "Escape" && works) {
      e.preventDefault();
      e.stopPropagation();
      interrupt();
    } else if (e.key === "Escape" && replaced) {
      e.stopPropagation();
      onReplaced();
    } else if (
      !replaced &&
      (e.key === "ArrowUp" || e.key === "ArrowDown") &&
      earlier.step(e.key === "ArrowUp" ? 1 : -1, box)
    ) {
      e.preventDefault();
    }
  };
  return (
    <section aria-label={t`Message to ${s.agent_name}`} className="border-t border-hairline bg-bg1 px-4 py-2 md:px-6">
      <div className="max-w-[52rem]">
        <StateLine
          session={s}
          conversation={conversation}
          may={may && !ended}
          busy={acts.send.isPending}
          onAgain={() => say(t`Go on.`)}
        />
        {may && (
          <form
            className="relative rounded-md border border-control bg-bg0 has-[textarea:focus-visible]:border-accent has-[textarea:focus-visible]:outline-1 has-[textarea:focus-visible]:outline-accent"
            onSubmit={(e) => {
              e.preventDefault();
              go();
            }}
            {...takesFiles(files)}
          >
            <CompletionList list={completion} />
            {replaced && (
              <p className="flex items-center gap-3 px-2.5 pt-1.5 text-meta text-fg2">
                <Trans>
                  This takes the place of your earlier prompt. What came after it is undone; files stay as they are.
                </Trans>
                <button type="button" onClick={onReplaced} className="min-h-6 text-accent hover:underline">
                  <Trans>Cancel</Trans>
                </button>
              </p>
            )}
            <AttachedList files={files} />
            <textarea
              ref={box}
              // biome-ignore lint/a11y/noAutofocus: the person asked to write it anew
              autoFocus={replaced !== undefined}
              aria-label={t`Message to ${s.agent_name}`}
              {...completion.field}
              placeholder={placeholder(s.agent_name, ended, resumes, works)}
              disabled={ended && !resumes}
              value={text}
              rows={2}
              maxLength={1_048_576}
              enterKeyHint={isCoarse() ? "enter" : "send"}
              onChange={(e) => setText(e.target.value)}
              onKeyDown={onKey}
              className="field-sizing-content block max-h-[40vh] min-h-12 w-full resize-none bg-transparent px-2.5 pt-2 leading-5 outline-none disabled:opacity-60 pointer-coarse:text-touch"
            />
            <div className="flex flex-wrap items-center gap-1 px-1.5 pb-1.5">
              {thread && files.takes && <AttachButton onFiles={files.add} />}
              {thread && !ended && (
                <>
                  <ModeChoice
                    thread={thread}
                    fixed={works || acts.set.isPending}
                    onChange={(mode) => acts.set.mutate({ mode })}
                  />
                  <ModelChoice
                    thread={thread}
                    fixed={works}
                    session={s}
                    onChange={(model) => acts.set.mutate({ model })}
                  />
                  <ContextFill thread={thread} session={s} messages={conversation.messages} />
                </>
              )}
              <span className="ml-auto flex items-center gap-1.5">
                {works && (
                  <Button
                    onClick={interrupt}
                    busy={acts.interrupt.isPending && t`Interrupting`}
                    title={t`Interrupt (Esc)`}
                  >
                    <Icon name="stop" size={12} />
                    <Trans>Interrupt</Trans>
                  </Button>
                )}
                <Button type="submit" look="primary" disabled={!some || !ready} title={sendTitle(works)}>
                  {resumes ? t`Resume and send` : t`Send`}
                </Button>
              </span>
            </div>
          </form>
        )}
      </div>
    </section>
  );
}

function placeholder(agent: string, ended: boolean, resumes: boolean, works: boolean): string {
  if (ended) return resumes ? t`Resume ${agent} with a message…` : t`The session has ended`;
  return works ? t`Tell ${agent} something while it works…` : t`What should ${agent} do?`;
}

const sendTitle = (works: boolean) =>
  works
    ? "Enter sends: it joins what the agent does. Shift+Enter begins a line"
    : "Enter sends. Shift+Enter begins a line";

/** The prompts that were sent before, by the arrow keys as in a shell. */
function useEarlier({ messages }: Conversation, text: string, setText: (text: string) => void) {
  const [back, setBack] = useState(0); // how many prompts back; 0 = what is being written
  const prompts = () => messages.filter((m) => m.role === "user" && m.state === "complete");
  const at = (n: number) =>
    prompts()
      .at(-n)
      ?.parts.map((p) => p.text ?? "")
      .join("\n") ?? "";
  return {
    reset: () => setBack(0),
    /** Whether there was one to go to. */
    step: (by: 1 | -1, box: RefObject<HTMLTextAreaElement | null>): boolean => {
      const el = box.current;
      const untouched = text === "" || (back > 0 && text === at(back));
      if (!el || !untouched || (by < 0 && back === 0)) return false;
      const next = back + by;
      if (next > prompts().length) return true;
      setBack(next);
      setText(next === 0 ? "" : at(next));
      return true;
    },
  };
}
