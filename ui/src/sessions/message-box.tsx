import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useRef, useState } from "react";
import { COMMAND } from "@/agents/built-in";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem, MenuLine } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { wakeFor } from "@/sandboxes/acts";
import { toast, toastError } from "@/state/toasts";
import { useDraft } from "./draft";
import { PromptQueue } from "./prompt-queue";
import { openPrompts, promptsQuery, queueWords } from "./prompts";
import { useStop } from "./use-stop";

const AgainDialog = lazy(() => import("./restart-dialog"));

interface Props {
  session: Session;
  ended: boolean;
  may: boolean;
}

/**
 * Messages to the agent: a text field, the queue, interrupt. One row has its own space; anything taller overlays the
 * terminal, whose size stays as it is.
 */
export default function MessageBox({ session: s, ended, may }: Props) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const prompts = useQuery(promptsQuery(s.workspace_id, s.id));
  const open = openPrompts(prompts.data);
  const words = queueWords(open);
  const [listed, setListed] = useState(false);
  const [again, setAgain] = useState(false);
  const [told, setTold] = useState("");
  const [text, setText] = useDraft(s.id);
  const box = useRef<HTMLTextAreaElement>(null);
  const stop = useStop(s.workspace_id);
  const resumes = ended && s.can_resume;

  const send = useMutation({
    scope: { id: `send.${s.id}` }, // one after the other: the order they were written in
    mutationFn: (sent: string) =>
      data(
        api.POST("/sessions/{id}/prompts", {
          params: {
            path: { id: s.id },
            header: { "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` },
          },
          body: { text: sent, ...(resumes ? { resume: true } : {}) },
        }),
      ),
    onMutate: () => setText(""),
    onSuccess: async (p) => {
      void client.invalidateQueries({ queryKey: keys.prompts(s.workspace_id, p.session_id) });
      wakeFor(client, s.workspace_id);
      setTold(resumes ? t`${s.agent_name} is resumed` : t`Queued`);
      if (p.session_id !== s.id) {
        await client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
        await navigate({ search: (x) => ({ ...x, session: p.session_id }) });
      }
    },
    onError: (error, sent) => {
      setText((now) => (now.trim() ? `${sent}\n\n${now}` : sent)); // nothing written is lost
      toastError(t`The message was not queued`, error);
    },
  });
  const interrupt = useMutation({
    mutationFn: () => data(api.POST("/sessions/{id}/interrupt", { params: { path: { id: s.id } }, body: {} })),
    onSuccess: (r) => {
      void client.invalidateQueries({ queryKey: keys.prompts(s.workspace_id, s.id) });
      const waits = r.held > 0 ? t` Queued messages wait until you continue the queue.` : "";
      if (r.outcome === "not_working")
        toast({ title: t`${s.agent_name} is not working`, text: t`There is nothing to interrupt.` });
      else if (r.outcome === "still_working")
        toast({
          kind: "bad",
          title: t`${s.agent_name} is still running`,
          text: t`Sent ${r.keys}.${waits} Use Stop to end it.`,
        });
      else toast({ kind: "good", title: t`${s.agent_name} was interrupted`, text: t`Sent ${r.keys}.${waits}` });
    },
    onError: (error) => toastError(t`${s.agent_name} was not interrupted`, error),
  });
  const go = () => {
    if (text.trim() && (!ended || (resumes && !send.isPending))) send.mutate(text);
  };
  useAction("prompt.write", () => box.current?.focus(), may);
  useAction("prompt.writeFromTerminal", () => box.current?.focus(), may);
  useAction("session.interrupt", () => interrupt.mutate(), may && !ended);

  const label = t`Message to ${s.agent_name}`;
  const empty = words === undefined;
  if (!may && empty) return null;
  return (
    <section aria-label={label} className="relative z-10 h-11 shrink-0 pointer-coarse:h-15">
      <div className="absolute inset-x-0 bottom-0 flex max-h-[60vh] flex-col border-t border-hairline bg-bg1">
        {listed && !empty && (
          <PromptQueue workspaceId={s.workspace_id} sessionId={s.id} open={open} may={may} ended={ended} />
        )}
        <form
          className="flex items-end gap-2 px-2 py-2"
          onSubmit={(e) => {
            e.preventDefault();
            go();
          }}
        >
          {words && (
            <Button
              aria-expanded={listed}
              onClick={() => setListed(!listed)}
              className={cx("tabular-nums", words.needs && "text-needs")}
            >
              {words.needs && <span aria-hidden>◆</span>}
              {words.text}
              <Icon name={listed ? "chevronDown" : "chevronUp"} size={12} />
            </Button>
          )}
          {may && (
            <>
              <textarea
                ref={box}
                aria-label={label}
                placeholder={
                  ended ? (resumes ? t`Resume ${s.agent_name} with a message…` : t`The session has ended`) : `${label}…`
                }
                disabled={ended && !resumes}
                value={text}
                rows={1}
                enterKeyHint="enter"
                onChange={(e) => setText(e.target.value)}
                onKeyDown={(e) => {
                  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.nativeEvent.isComposing) {
                    e.preventDefault();
                    go();
                  }
                }}
                className="field-sizing-content control-h placeholder:overflow-hidden placeholder:text-ellipsis placeholder:whitespace-nowrap max-h-[40vh] min-h-7 min-w-0 flex-1 resize-none rounded-md border border-control bg-bg1 px-2.5 py-1 leading-5 disabled:opacity-60 pointer-coarse:min-h-11 pointer-coarse:py-2.5 pointer-coarse:text-touch"
              />
              <Button
                type="submit"
                look="primary"
                disabled={!text.trim() || (ended && !resumes)}
                busy={resumes && send.isPending && t`Resuming`}
                title={ended ? "Resume and send (Ctrl+Enter)" : "Sent when the agent is idle (Ctrl+Enter)"}
              >
                {resumes ? t`Resume and send` : s.state === "idle" && empty ? t`Send` : t`Queue`}
              </Button>
              {!ended && (
                <Button
                  busy={interrupt.isPending && t`Interrupting`}
                  onClick={() => interrupt.mutate()}
                  title={t`Interrupt the current work. The session continues`}
                  className="max-md:hidden"
                >
                  <Trans>Interrupt</Trans>
                </Button>
              )}
              <Menu
                trigger={
                  <IconButton label={t`More actions for ${s.agent_name}`}>
                    <Icon name="more" />
                  </IconButton>
                }
              >
                {!ended && (
                  <>
                    <MenuItem onSelect={() => interrupt.mutate()} keys="mod+e i">
                      <Trans>Interrupt</Trans>
                    </MenuItem>
                    <MenuItem onSelect={() => stop.mutate(s)} keys="mod+e s">
                      <Trans>Stop</Trans>
                    </MenuItem>
                    <MenuLine />
                  </>
                )}
                {s.agent !== COMMAND && (
                  <MenuItem onSelect={() => setAgain(true)}>
                    <Trans>Restart with another agent…</Trans>
                  </MenuItem>
                )}
              </Menu>
            </>
          )}
          <span aria-live="polite" className="sr-only">
            {told}
          </span>
        </form>
      </div>
      {again && (
        <Suspense>
          <AgainDialog session={s} ended={ended} onClose={() => setAgain(false)} />
        </Suspense>
      )}
    </section>
  );
}
