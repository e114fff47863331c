import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, Suspense, useId, useState } from "react";
import { visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Kbd } from "@/kit/kbd";
import { Shape } from "@/kit/mark";
import { lazy } from "@/kit/part";
import type { Question, QuestionOption, Via } from "./api";
import { DetailView } from "./detail";
import { keyOf, optionFor, shownOptions, wordsOf } from "./question";
import { useAnswer } from "./use-answer";

const Prose = lazy(() => import("@/highlight/prose").then((m) => ({ default: m.Prose })));

interface Props {
  question: Question;
  team: string;
  agent: string;
  via: Via;
  /** The keys a, d and 1 to 9 answer it while it has the focus. */
  keys: boolean;
  /** The user may answer; others only see the question. */
  may: boolean;
  onDone?: () => void;
  /** Above the title, such as the workspace it comes from. */
  head?: ReactNode;
}

/** An agent's question with its answer controls. Mount it with the question's id as its key. */
export function QuestionCard({ question: q, team, agent, via, keys, may, onDone, head }: Props) {
  const { answer, sending, locked, settled, failed } = useAnswer(q, team, via, onDone);
  const [picked, setPicked] = useState<readonly string[]>([]);
  const title = useId();
  const words = wordsOf(q);
  const options = shownOptions(q);
  const off = locked || !settled;
  const permission = q.kind === "permission";
  const choose = (o: QuestionOption | undefined) => {
    if (!o || off || !may) return;
    if (q.multi) setPicked((p) => (p.includes(o.id) ? p.filter((id) => id !== o.id) : [...p, o.id]));
    else answer({ option_id: o.id });
  };
  const on = keys && may;
  useAction("answer.allow", () => choose(optionFor(q, "a")), on && optionFor(q, "a") !== undefined);
  useAction("answer.deny", () => choose(optionFor(q, "d")), on && optionFor(q, "d") !== undefined);
  useAction("answer.option", (key) => choose(optionFor(q, key)), on && options.length > 0);

  const busy = (o: QuestionOption) => sending?.option_id === o.id && t`Sending`;
  return (
    <section aria-labelledby={title} className="@container min-w-0">
      {head}
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-80">
          <p id={title} className="flex items-baseline gap-2">
            <Shape kind="needs" className="translate-y-px" />
            <span className="min-w-0 break-words">
              <span className="text-fg2">
                <Trans>{visible(agent)} asks:</Trans>
              </span>{" "}
              <span className="font-medium">
                {words.before}
                {words.code && (
                  <code className="rounded-sm bg-bg3 px-1 py-0.5 text-code break-words box-decoration-clone">
                    {visible(words.code)}
                  </code>
                )}
                {words.after}
              </span>
            </span>
          </p>
          {q.kind === "plan" ? (
            <div className="mt-2 max-h-[50vh] overflow-y-auto">
              <Suspense fallback={null}>
                <Prose text={q.detail} />
              </Suspense>
            </div>
          ) : (
            <DetailView words={words} code={permission} />
          )}
        </div>
        {may && permission && (
          <div className="flex flex-wrap gap-2 pointer-coarse:w-full pointer-coarse:*:h-auto pointer-coarse:*:min-h-11 pointer-coarse:*:flex-1">
            {options.map((o) => (
              <Button
                key={o.id}
                look={o.role === "allow" ? "primary" : "plain"}
                keys={on ? keyOf(q, o) : undefined}
                disabled={off}
                busy={busy(o)}
                title={o.description || undefined}
                onClick={() => choose(o)}
                data-answer={o.role}
                className={cx(!settled && "disabled:opacity-100", "max-w-full min-w-20")}
              >
                <span className="truncate pointer-coarse:whitespace-normal">{o.label}</span>
              </Button>
            ))}
          </div>
        )}
      </div>
      {may && !permission && options.length > 0 && (
        <Options
          question={q}
          options={options}
          picked={picked}
          off={off}
          keys={on}
          sending={sending?.option_id}
          choose={choose}
        />
      )}
      {may && q.multi && (
        <Button
          look="primary"
          className="mt-2 mr-3 pointer-coarse:mr-0 pointer-coarse:h-11 pointer-coarse:w-full"
          disabled={off || picked.length === 0}
          busy={sending?.option_ids && t`Sending`}
          onClick={() => answer({ option_ids: options.filter((o) => picked.includes(o.id)).map((o) => o.id) })}
        >
          {picked.length > 0 ? t`Send ${picked.length} chosen` : t`Send`}
        </Button>
      )}
      {may && (q.free_text || q.kind === "text") && (
        <InWords question={q} off={locked} busy={sending?.text !== undefined} send={answer} />
      )}
      {!may && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>Only members who may answer agents can answer.</Trans>
        </p>
      )}
      {failed && (
        <p role="alert" className="mt-1.5 break-words text-failed">
          {failed.title}. {failed.text}
        </p>
      )}
    </section>
  );
}

interface OptionsProps {
  question: Question;
  options: QuestionOption[];
  picked: readonly string[];
  off: boolean;
  keys: boolean;
  sending: string | undefined;
  choose: (o: QuestionOption) => void;
}

/** The options of a choice, each with its words in the row. */
function Options({ question: q, options, picked, off, keys, sending, choose }: OptionsProps) {
  return (
    <ul className="mt-2 max-h-72 divide-y divide-hairline overflow-y-auto rounded-md border border-control bg-bg1">
      {options.map((o) => {
        const key = keys && keyOf(q, o);
        const row = (
          <>
            <span className="min-w-0 flex-1">
              <span className="block break-words">{o.label}</span>
              {o.description && <span className="block text-meta break-words text-fg2">{o.description}</span>}
            </span>
            {sending === o.id ? (
              <span className="text-meta text-fg2">
                <Trans>Sending…</Trans>
              </span>
            ) : (
              key && <Kbd keys={key} />
            )}
          </>
        );
        const look =
          "flex min-h-8 w-full items-center gap-2.5 px-2.5 py-1 text-left -outline-offset-2 hover:bg-bg2 pointer-coarse:min-h-11";
        return (
          <li key={o.id}>
            {q.multi ? (
              <label className={look}>
                <input
                  type="checkbox"
                  checked={picked.includes(o.id)}
                  disabled={off}
                  onChange={() => choose(o)}
                  className="size-4 shrink-0 accent-fill"
                />
                {row}
              </label>
            ) : (
              <button type="button" disabled={off} onClick={() => choose(o)} data-answer={o.role} className={look}>
                {row}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

interface InWordsProps {
  question: Question;
  off: boolean;
  busy: boolean;
  send: (a: { option_id?: string; text: string }) => void;
}

/** An answer in words: beside a Deny it is the reason, elsewhere the answer itself. */
function InWords({ question: q, off, busy, send }: InWordsProps) {
  const deny = q.kind === "permission" ? optionFor(q, "d") : undefined;
  const folded = q.kind !== "text";
  const [open, setOpen] = useState(!folded);
  const [text, setText] = useState("");
  const label = deny ? t`Why not, and what to do instead` : q.kind === "text" ? t`Your answer` : t`Another answer`;
  if (!open)
    return (
      <button
        type="button"
        onClick={() => setOpen(true)}
        className="mt-1 min-h-6 rounded-sm text-meta text-accent hover:underline pointer-coarse:min-h-8"
      >
        {deny ? t`Deny with a reason…` : t`Answer in other words…`}
      </button>
    );
  const go = () => {
    if (text.trim()) send({ ...(deny ? { option_id: deny.id } : {}), text: text.trim() });
  };
  return (
    <form
      className="mt-2 flex flex-wrap items-end gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
    >
      <textarea
        // biome-ignore lint/a11y/noAutofocus: the person asked to type here
        autoFocus={folded}
        aria-label={label}
        placeholder={label}
        rows={Math.min(6, text.split("\n").length)}
        maxLength={16_384}
        value={text}
        enterKeyHint="send"
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
            e.preventDefault();
            go();
          }
          if (e.key === "Escape" && folded) {
            e.stopPropagation();
            setOpen(false);
          }
        }}
        className={cx(
          inputClass,
          "h-auto min-h-7 flex-1 basis-60 resize-none py-1 leading-5 pointer-coarse:min-h-11 pointer-coarse:py-2.5",
        )}
      />
      <Button
        type="submit"
        look={deny ? "plain" : "primary"}
        disabled={off || !text.trim()}
        busy={busy && t`Sending`}
        className="pointer-coarse:h-11"
      >
        {deny ? t`Deny` : t`Send`}
      </Button>
      {folded && (
        <Button look="quiet" className="pointer-coarse:h-11" onClick={() => setOpen(false)}>
          <Trans>Cancel</Trans>
        </Button>
      )}
    </form>
  );
}
