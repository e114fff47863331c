import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type KeyboardEvent, useRef, useState } from "react";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Shape } from "@/kit/mark";
import { movedTo, type Prompt } from "./prompts";
import { usePrompts } from "./use-prompts";

interface Props {
  workspaceId: string;
  sessionId: string;
  open: Prompt[];
  may: boolean;
  ended: boolean;
}

/** The prompts that wait, in their order: edit, move, send now, cancel. */
export function PromptQueue({ workspaceId, sessionId, open, may, ended }: Props) {
  const { edit, cancel } = usePrompts(workspaceId, sessionId);
  const [editing, setEditing] = useState<string>();
  const [dragged, setDragged] = useState<string>();
  const [told, setTold] = useState("");
  const list = useRef<HTMLOListElement>(null);
  const queued = open.filter((p) => p.state === "queued");
  const first = queued[0];
  const held = first?.held && !ended;

  const place = (p: Prompt, position: number) => {
    edit.mutate({ id: p.id, position });
    setTold(t`Moved to position ${position + 1} of ${queued.length}`);
  };
  const move = (p: Prompt, by: number) => {
    const to = movedTo(open, p.id, by);
    if (to !== undefined) place(p, to);
  };
  const onKey = (e: KeyboardEvent, p: Prompt) => {
    if (!e.altKey || (e.key !== "ArrowUp" && e.key !== "ArrowDown")) return;
    e.preventDefault();
    move(p, e.key === "ArrowUp" ? -1 : 1);
  };
  const drop = (over: Prompt) => {
    const p = queued.find((q) => q.id === dragged);
    setDragged(undefined);
    const to = queued.indexOf(over);
    if (p && to >= 0 && p !== over) place(p, to);
  };

  return (
    <div className="min-h-0 overflow-y-auto border-b border-hairline">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 pt-1.5 text-meta text-fg2">
        <span role="status" className="min-w-0 flex-1 break-words">
          {first ? t`Waits: ${first.waits || t`is about to be sent`}` : t`The queue is empty.`}
        </span>
        {held && may && (
          <Button onClick={() => edit.mutate({ id: first.id, release: true })} className="h-6!">
            <Trans>Continue queue</Trans>
          </Button>
        )}
        <span aria-live="polite" className="sr-only">
          {told}
        </span>
      </div>
      <ol ref={list} aria-label={t`Queued prompts`} className="px-1.5 pb-1.5">
        {open.map((p) => {
          const at = queued.indexOf(p);
          return (
            <li
              key={p.id}
              draggable={may && p.state === "queued" && editing !== p.id}
              onDragStart={(e) => {
                e.dataTransfer.effectAllowed = "move";
                e.dataTransfer.setData("text/plain", p.text);
                setDragged(p.id);
              }}
              onDragEnd={() => setDragged(undefined)}
              onDragOver={(e) => dragged && p.state === "queued" && e.preventDefault()}
              onDrop={(e) => {
                e.preventDefault();
                drop(p);
              }}
              className={cx("rounded-sm px-1.5 py-1 hover:bg-bg2", dragged === p.id && "opacity-50")}
            >
              {editing === p.id ? (
                <EditPrompt
                  prompt={p}
                  done={(text) => {
                    setEditing(undefined);
                    if (text !== undefined && text !== p.text) edit.mutate({ id: p.id, text });
                  }}
                />
              ) : (
                <div className="flex items-start gap-x-2 max-md:flex-wrap">
                  <span className="mt-0.5 flex w-16 shrink-0 items-center gap-1.5 text-meta text-fg3">
                    <Shape kind={p.state === "failed" ? "failed" : p.state === "sending" ? "running" : "setup"} />
                    {p.state === "failed"
                      ? t`Failed`
                      : p.state === "sending"
                        ? t`Sending`
                        : at === 0
                          ? t`Next`
                          : at + 1}
                  </span>
                  <span className="min-w-0 flex-1">
                    <span className="line-clamp-2 break-words whitespace-pre-wrap" title={p.text}>
                      {p.text}
                    </span>
                    <span className="block text-meta break-words text-fg3">
                      {p.reason ? <span className="text-failed">{p.reason} · </span> : null}
                      {p.created_by_name}
                    </span>
                  </span>
                  {may && p.state !== "sending" && (
                    // biome-ignore lint/a11y/noStaticElementInteractions: Alt and an arrow move the row from any of its buttons
                    <span
                      className="flex shrink-0 flex-wrap justify-end max-md:basis-full"
                      onKeyDown={(e) => onKey(e, p)}
                    >
                      {p.state === "queued" && (
                        <>
                          <IconButton label={t`Move up (Alt+↑)`} disabled={at === 0} onClick={() => move(p, -1)}>
                            <Icon name="up" size={14} />
                          </IconButton>
                          <IconButton
                            label={t`Move down (Alt+↓)`}
                            disabled={at === queued.length - 1}
                            onClick={() => move(p, 1)}
                          >
                            <Icon name="down" size={14} />
                          </IconButton>
                        </>
                      )}
                      <Button look="quiet" onClick={() => setEditing(p.id)}>
                        <Trans>Edit</Trans>
                      </Button>
                      {!ended && (
                        <Button look="quiet" onClick={() => edit.mutate({ id: p.id, now: true })}>
                          {p.state === "failed" ? t`Send again` : t`Send now`}
                        </Button>
                      )}
                      <IconButton label={t`Cancel this prompt`} onClick={() => cancel.mutate(p)}>
                        <Icon name="close" size={14} />
                      </IconButton>
                    </span>
                  )}
                </div>
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function EditPrompt({ prompt: p, done }: { prompt: Prompt; done: (text: string | undefined) => void }) {
  const [text, setText] = useState(p.text);
  const save = () => text.trim() && done(text);
  return (
    <form
      className="flex flex-col gap-1.5"
      onSubmit={(e) => {
        e.preventDefault();
        save();
      }}
    >
      <textarea
        // biome-ignore lint/a11y/noAutofocus: the person asked to edit it
        autoFocus
        aria-label={t`Text of the prompt`}
        value={text}
        rows={3}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
            e.preventDefault();
            save();
          } else if (e.key === "Escape") {
            e.stopPropagation();
            done(undefined);
          }
        }}
        className={cx(inputClass, "h-auto max-h-60 resize-y py-1.5 leading-5")}
      />
      <span className="flex justify-end gap-2">
        <Button onClick={() => done(undefined)}>
          <Trans>Cancel</Trans>
        </Button>
        <Button type="submit" look="primary" keys="mod+enter" disabled={!text.trim()}>
          <Trans>Save</Trans>
        </Button>
      </span>
    </form>
  );
}
