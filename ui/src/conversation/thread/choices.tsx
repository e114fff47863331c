import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useId, useState } from "react";
import { MODES, type Mode } from "@/agents/own";
import { ModelList, useModels } from "@/agents/own-models";
import type { Session } from "@/api/client";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { locale } from "@/language/locale";
import type { Conversation, Thread } from "./feed";

const QUIET =
  "min-h-6 rounded-md border border-transparent bg-transparent px-1.5 text-meta text-fg2 hover:bg-bg2 hover:text-fg disabled:opacity-60 pointer-coarse:min-h-11";

interface ModeProps {
  thread: Thread;
  /** It cannot be changed now. */
  fixed: boolean;
  onChange: (mode: Mode) => void;
}

/** What the agent may change. */
export function ModeChoice({ thread, fixed, onChange }: ModeProps) {
  return (
    <select
      aria-label={t`Mode`}
      title={MODES.find((m) => m.mode === thread.mode)?.hint}
      value={thread.mode}
      disabled={fixed}
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
  /** It cannot be changed now. */
  fixed: boolean;
  session: Session;
  onChange: (model: string) => void;
}

/** The model that is asked: a button that becomes a field. */
export function ModelChoice({ thread, fixed, session, onChange }: ModelProps) {
  const [editing, setEditing] = useState(false);
  const { standard } = useModels(session.account_id);
  if (editing)
    return (
      <ModelField
        model={thread.model}
        account={session.account_id}
        onDone={(model) => {
          setEditing(false);
          if (model && model !== thread.model) onChange(model);
        }}
      />
    );
  return (
    <button
      type="button"
      title={fixed ? t`Interrupt the agent to change the model` : t`Change the model`}
      disabled={fixed}
      onClick={() => setEditing(true)}
      className={QUIET}
    >
      <span className="inline-flex items-center gap-1">
        <span className="sr-only">
          <Trans>Model:</Trans>{" "}
        </span>
        <span className="max-w-52 truncate">{thread.model || standard || t`Default model`}</span>
        <Icon name="chevronDown" size={10} />
      </span>
    </button>
  );
}

interface FieldProps {
  model: string;
  account: string;
  /** With "" it stays as it is. */
  onDone: (model: string) => void;
}

function ModelField({ model, account, onDone }: FieldProps) {
  const [text, setText] = useState(model);
  const { names, problem } = useModels(account);
  const list = useId();
  return (
    <>
      <input
        // biome-ignore lint/a11y/noAutofocus: the person asked to change it
        autoFocus
        aria-label={t`Model`}
        title={problem || undefined}
        list={list}
        value={text}
        spellCheck={false}
        autoCapitalize="none"
        maxLength={200}
        onChange={(e) => setText(e.target.value)}
        onFocus={(e) => e.target.select()}
        onBlur={() => onDone(text.trim())}
        onKeyDown={(e) => {
          if (e.key === "Escape") {
            e.stopPropagation();
            onDone("");
          } else if (e.key === "Enter") {
            e.preventDefault();
            onDone(text.trim());
          }
        }}
        className="h-6 w-52 rounded-md border border-control bg-bg1 px-1.5 font-mono text-code pointer-coarse:h-11"
      />
      <ModelList id={list} names={names} />
    </>
  );
}

interface FillProps {
  messages: Conversation["messages"];
  thread: Thread;
  session: Session;
}

const short = new Intl.NumberFormat(locale(), { notation: "compact", maximumFractionDigits: 1 });

/** How much of the model's context the conversation fills, as of its last answer. */
export function ContextFill({ messages, thread, session }: FillProps) {
  const { windowOf } = useModels(session.account_id);
  const last = messages.findLast((m) => m.role === "assistant" && m.state === "complete");
  const after = messages.findLast((m) => m.role === "clear" || m.role === "summary");
  const u = last && (after?.seq ?? -1) < last.seq ? last.usage : undefined;
  const used = u ? u.input + u.cache_read + u.cache_write + u.output : 0;
  if (used === 0) return null;
  const window = windowOf(thread.model);
  const percent = window > 0 ? Math.min(100, Math.round((100 * used) / window)) : 0;
  return (
    <span
      className={cx("px-1.5 text-meta tabular-nums", percent >= 70 ? "text-needs" : "text-fg3")}
      title={
        window > 0
          ? t`${short.format(used)} of ${short.format(window)} tokens. At 80 % the agent summarizes.`
          : undefined
      }
    >
      <span className="sr-only">
        <Trans>Context:</Trans>{" "}
      </span>
      {window > 0 ? t`${percent} % of the context` : t`${short.format(used)} tokens`}
    </span>
  );
}
