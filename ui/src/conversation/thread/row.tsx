import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { memo, type ReactNode, useRef } from "react";
import { bytes } from "@/format/text";
import { Prose } from "@/highlight/prose";
import { cx } from "@/kit/cx";
import { Shape } from "@/kit/mark";
import { Foldable } from "../foldable";
import { PromptBox } from "../prompt-box";
import { money, spent } from "../words";
import { CallCard, WritingCard } from "./card";
import { Chunks } from "./chunks";
import { PartMedia } from "./media";
import { AnswerButtons, type MessageActs, PromptButtons } from "./prompt-acts";
import { type Row, textOf, unfolds } from "./rows";

interface Props {
  row: Row;
  now: number;
  open: boolean;
  current: boolean;
  onToggle: (id: string) => void;
  /** Not given while nothing can be done with prompts. */
  acts: MessageActs | undefined;
}

/** One row of the conversation. */
export const ThreadRow = memo(function ThreadRow({ row, now, open, current, onToggle, acts }: Props) {
  const toggle = unfolds(row) ? () => onToggle(row.id) : undefined;
  return (
    <div className={cx("group/row px-4 py-1 md:px-6", current && "shadow-[inset_3px_0_0_var(--accent)]")}>
      <div
        className={cx(
          "max-w-[52rem]",
          row.message.state === "undone" && row.kind !== "undone" && "border-l border-hairline pl-3",
        )}
      >
        {body(row, now, open, toggle, acts)}
      </div>
    </div>
  );
});

function body(
  row: Row,
  now: number,
  open: boolean,
  toggle: (() => void) | undefined,
  acts: MessageActs | undefined,
): ReactNode {
  switch (row.kind) {
    case "prompt":
      return <Prompt row={row} now={now} acts={acts} />;
    case "text":
      return <Written text={row.text} live={row.live} />;
    case "reasoning":
      return (
        <Foldable open={open} toggle={toggle} head={<Thought text={row.text} live={row.live} open={open} />}>
          <div className="text-fg2">
            <Written text={row.text} live={row.live} />
          </div>
        </Foldable>
      );
    case "writing":
      return <WritingCard part={row.part} />;
    case "call":
      return <CallCard call={row.call} shown={row.shown} open={open} toggle={toggle} />;
    case "picture":
      return (
        <p className="text-meta text-fg3">
          <Trans>Picture, {bytes(row.size)}</Trans>
        </p>
      );
    case "spent":
      return (
        <p className="flex items-baseline gap-3 text-meta text-fg3 tabular-nums">
          <span>
            {spent(row.message.usage)}
            {row.turn && t` · ${money(row.turn)} in this turn`}
          </span>
          {acts && row.message.state === "complete" && <AnswerButtons message={row.message} acts={acts} />}
        </p>
      );
    case "summary":
    case "note":
      return (
        <Foldable
          open={open}
          toggle={toggle}
          head={
            <span className="text-fg2">
              {row.kind === "note"
                ? t`Parawork told the model what changed of its instructions.`
                : t`The model reads this summary instead of what is above.`}
            </span>
          }
        >
          <div className="text-fg2">
            <Prose text={row.message.parts.map((p) => p.text ?? "").join("\n")} />
          </div>
        </Foldable>
      );
    case "clear":
      return (
        <p className="flex items-center gap-3 py-1 text-meta text-fg3 before:h-px before:flex-1 before:bg-hairline after:h-px after:flex-1 after:bg-hairline">
          <Trans>The model no longer reads what is above</Trans>
        </p>
      );
    case "undone":
      return (
        <Foldable
          open={open}
          toggle={toggle}
          head={
            <>
              <span className="shrink-0 text-fg2">
                <Trans>{plural(row.messages, { one: "# message", other: "# messages" })} undone</Trans>
              </span>
              {!open && (
                <span className="truncate text-fg3">{row.text.trimStart().split("\n", 1)[0]!.slice(0, 200)}</span>
              )}
            </>
          }
        />
      );
    case "discarded":
      return (
        <Foldable
          open={open}
          toggle={toggle}
          head={
            <>
              <Shape kind="stopped" />
              <span className="truncate text-fg3">
                <Trans>An answer was cut: {row.message.note || t`it was asked for again`}</Trans>
              </span>
            </>
          }
        >
          <div className="text-fg3">
            <Prose text={row.text} />
          </div>
        </Foldable>
      );
  }
}

/** Markdown that may still grow: blocks that are complete are not drawn again. */
function Written({ text, live }: { text: string; live: boolean }) {
  const cut = useRef<Chunks>(undefined);
  cut.current ??= new Chunks();
  const chunks = cut.current.of(text);
  return (
    <div className="[&>*+*]:mt-1.5">
      {chunks.map((c, i) => (
        <Prose key={i} text={c} growing={live && i === chunks.length - 1} />
      ))}
    </div>
  );
}

function Thought({ text, live, open }: { text: string; live: boolean; open: boolean }) {
  const line = live ? text.trimEnd().split("\n").at(-1)! : text.trimStart().split("\n", 1)[0]!;
  return (
    <>
      <span className={cx("text-fg3", live && "pulse-mark")}>{live ? t`Thinks` : t`Thought`}</span>
      {!open && <span className="truncate text-fg3 italic">{line.slice(-200)}</span>}
    </>
  );
}

function Prompt({ row, now, acts }: { row: Row; now: number; acts: MessageActs | undefined }) {
  const m = row.message;
  return (
    <PromptBox
      title={m.state === "undone" ? t`Prompt, undone` : t`Prompt`}
      text={textOf(m)}
      at={m.created_at}
      now={now}
      faded={m.state === "undone"}
      acts={acts && m.state === "complete" && <PromptButtons message={m} acts={acts} />}
    >
      <PartMedia parts={m.parts} />
    </PromptBox>
  );
}
