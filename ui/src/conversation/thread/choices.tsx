import { useId, useState } from "react";
import { MODES, type Mode } from "@/agents/own";
import { ModelList } from "@/agents/own-models";
import type { Session } from "@/api/client";
import { Icon } from "@/kit/icon";
import type { Thread } from "./feed";

const QUIET =
  "min-h-6 rounded-md border border-transparent bg-transparent px-1.5 text-meta text-fg2 hover:bg-bg2 hover:text-fg disabled:opacity-60 pointer-coarse:min-h-11";

interface ModeProps {
  thread: Thread;
  busy: boolean;
  onChange: (mode: Mode) => void;
}

/** What the agent may change. */
export function ModeChoice({ thread, busy, onChange }: ModeProps) {
  return (
    <select
      aria-label="Mode"
      title={MODES.find((m) => m.mode === thread.mode)?.hint}
      value={thread.mode}
      disabled={busy}
      onChange={(e) => onChange(e.target.value as Mode)}
      className={QUIET}
    >
      {MODES.map((m) => (
        <option key={m.mode} value={m.mode} title={m.hint}>
          {m.name}
        </option>
      ))}
    </select>
  );
}

interface ModelProps {
  thread: Thread;
  session: Session;
  onChange: (model: string) => void;
}

/** The model that is asked: a button that becomes a field. */
export function ModelChoice({ thread, session, onChange }: ModelProps) {
  const [editing, setEditing] = useState<string>();
  const list = useId();
  if (editing === undefined)
    return (
      <button type="button" title="Change the model" onClick={() => setEditing(thread.model)} className={QUIET}>
        <span className="inline-flex items-center gap-1">
          <span className="sr-only">Model: </span>
          <span className="max-w-52 truncate">{thread.model || "Default model"}</span>
          <Icon name="chevronDown" size={10} />
        </span>
      </button>
    );
  const done = () => {
    const model = editing.trim();
    setEditing(undefined);
    if (model && model !== thread.model) onChange(model);
  };
  return (
    <>
      <input
        // biome-ignore lint/a11y/noAutofocus: the person asked to change it
        autoFocus
        aria-label="Model"
        list={list}
        value={editing}
        spellCheck={false}
        autoCapitalize="none"
        maxLength={200}
        onChange={(e) => setEditing(e.target.value)}
        onFocus={(e) => e.target.select()}
        onBlur={done}
        onKeyDown={(e) => {
          if (e.key === "Escape") {
            e.stopPropagation();
            setEditing(undefined);
          } else if (e.key === "Enter") {
            e.preventDefault();
            done();
          }
        }}
        className="h-6 w-52 rounded-md border border-control bg-bg1 px-1.5 font-mono text-[12px] pointer-coarse:h-11"
      />
      <ModelList id={list} accountId={session.account_id ?? ""} />
    </>
  );
}
