import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { memo, type ReactNode, Suspense } from "react";
import { BASE } from "@/api/client";
import { duration } from "@/format/time";
import { CodeBlock, DiffBlock } from "@/highlight/code";
import { Prose } from "@/highlight/prose";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { copyLink } from "@/kit/link";
import { type MarkKind, Shape } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Counts } from "@/kit/states";
import { type Call, callOf, toolWords } from "./call";
import type { Item } from "./feed";
import { Foldable } from "./foldable";
import { PromptBox } from "./prompt-box";
import { type Row, unfolds } from "./rows";
import { money, spent } from "./words";

const RunCard = lazy(() => import("@/code/run-card"));

interface Props {
  row: Row;
  session: string;
  now: number;
  current: boolean;
  onToggle: (id: string) => void;
}

/** One item of the conversation. */
export const ItemRow = memo(function ItemRow({ row, session, now, current, onToggle }: Props) {
  const { item } = row;
  const toggle = unfolds(item, row.steps) ? () => onToggle(item.id) : undefined;
  return (
    <div
      className={cx("px-4 py-1 md:px-6", current && "shadow-[inset_3px_0_0_var(--accent)]")}
      style={{ paddingLeft: row.depth > 0 ? `calc(1.5rem + ${row.depth * 20}px)` : undefined }}
    >
      <div className={cx("max-w-[52rem]", (row.depth > 0 || item.undone) && "border-l border-hairline pl-3")}>
        {body(row, session, now, toggle)}
      </div>
    </div>
  );
});

function body(row: Row, session: string, now: number, toggle: (() => void) | undefined): ReactNode {
  const { item } = row;
  switch (item.kind) {
    case "prompt":
      return (
        <PromptBox
          title={item.parent !== "" ? t`Prompt for the subagent` : t`Prompt`}
          text={item.text}
          at={item.at}
          now={now}
          acts={<Replay item={item} session={session} />}
        />
      );
    case "text":
      return <Prose text={item.text} />;
    case "thinking":
      return (
        <Foldable
          open={row.open}
          toggle={toggle}
          head={
            <>
              <span className="text-fg3">
                <Trans>Thought</Trans>
              </span>
              {!row.open && <span className="truncate text-fg3 italic">{firstLine(item.text)}</span>}
            </>
          }
        >
          <div className="text-fg2">
            <Prose text={item.text} />
          </div>
        </Foldable>
      );
    case "tool":
      return <Tool row={row} session={session} toggle={toggle} />;
    case "edit":
      return <Edit row={row} toggle={toggle} />;
    case "question":
      return (
        <div className="panel px-3 py-2">
          <p className="flex items-center gap-2 text-meta text-fg2">
            <Shape kind={item.status === "running" ? "needs" : "done"} />
            {item.status === "running" ? t`Asks` : t`Asked`}
            <Status item={item} />
          </p>
          {item.title && <p className="mt-1 font-medium">{item.title}</p>}
          <Prose text={item.text} />
        </div>
      );
    case "answer":
      return (
        <p className="whitespace-pre-wrap">
          <span className="text-fg3">
            <Trans>Answered:</Trans>{" "}
          </span>
          {item.text}
        </p>
      );
    case "error":
      return (
        <p className="flex gap-2 panel px-3 py-2 break-words">
          <span className="pt-1.5">
            <Shape kind={item.status === "retrying" ? "setup" : "failed"} />
          </span>
          <span className="min-w-0 whitespace-pre-wrap">
            <span className={cx("font-medium", item.status !== "retrying" && "text-failed")}>
              {item.status === "retrying" ? t`Retrying. ` : t`Error. `}
            </span>
            {item.text}
          </span>
        </p>
      );
    case "usage":
      return (
        <p className="text-meta text-fg3 tabular-nums">
          {item.usage && spent(item.usage)}
          {row.turn && t` · ${money(row.turn)} in this turn`}
          {item.duration_ms > 0 && ` · ${duration(item.duration_ms)}`}
        </p>
      );
    case "note":
      return <Remark row={row} toggle={toggle} />;
  }
}

const firstLine = (text: string): string => text.trimStart().split("\n", 1)[0]!.slice(0, 200);

/** Link to the replay of the terminal at that time, and what copies a link to the item. */
function Replay({ item, session }: { item: Item; session: string }) {
  const copy = (
    <IconButton
      label={t`Copy link to this message`}
      onClick={() => copyLink({ tab: "conversation", session, place: item.place }, t`the link`)}
    >
      <Icon name="copy" size={14} />
    </IconButton>
  );
  if (item.offset === null) return copy;
  return (
    <>
      {copy}
      <Link
        to="."
        search={(s) => ({
          ...s,
          tab: "history",
          session,
          at: item.offset ?? undefined,
          when: undefined,
          place: undefined,
        })}
        className="inline-flex min-h-6 items-center text-meta whitespace-nowrap text-accent hover:underline pointer-coarse:min-h-11"
      >
        <Trans>Replay</Trans>
      </Link>
    </>
  );
}

const STATUS: Record<string, { mark: MarkKind; word: string }> = {
  running: { mark: "running", word: t`runs` },
  ok: { mark: "done", word: t`done` },
  failed: { mark: "failed", word: t`failed` },
  denied: { mark: "stopped", word: t`denied` },
  stopped: { mark: "stopped", word: t`stopped` },
};

function Status({ item }: { item: Item }) {
  const s = STATUS[item.status];
  if (!s) return null;
  const loud = item.status !== "ok";
  return <span className={cx("shrink-0", loud ? "text-meta text-fg2" : "sr-only")}>{s.word}</span>;
}

function StatusShape({ item }: { item: Item }) {
  return <Shape kind={STATUS[item.status]?.mark ?? "done"} />;
}

function Took({ item }: { item: Item }) {
  if (item.duration_ms < 1000) return null;
  return <span className="shrink-0 text-meta text-fg3 tabular-nums">{duration(item.duration_ms)}</span>;
}

function Tool({ row, session, toggle }: { row: Row; session: string; toggle: (() => void) | undefined }) {
  const { item, steps, open } = row;
  const call = callOf(item);
  return (
    <Foldable
      open={open}
      toggle={toggle}
      head={
        <>
          <StatusShape item={item} />
          <span className="shrink-0 font-medium">{call ? toolWords(call.tool) : item.tool || t`Tool`}</span>
          <span className="min-w-0 flex-1 truncate font-mono text-code text-fg2">{item.title}</span>
          {steps > 0 && (
            <span className="shrink-0 text-meta text-fg3">{plural(steps, { one: "# step", other: "# steps" })}</span>
          )}
          <Status item={item} />
          <Took item={item} />
        </>
      }
    >
      {call?.run ? (
        <Suspense fallback={<CodeBlock language={call.language} text={call.code} />}>
          <RunCard id={call.run} code={call.code} language={call.language} />
        </Suspense>
      ) : (
        <Texts item={item} call={call} />
      )}
      {call && <Recorded call={call} />}
      <Replay item={item} session={session} />
    </Foldable>
  );
}

function Texts({ item, call }: { item: Item; call: Call | undefined }) {
  const language = call?.code ? call.language : item.tool === "exec" ? "javascript" : "";
  return (
    <>
      {item.input && <CodeBlock language={language} text={call?.code || item.input} label={t`Input`} />}
      {call?.picture && (
        <img
          src={`${BASE}/artifacts/${encodeURIComponent(call.picture)}/content`}
          alt={t`The page in the browser`}
          loading="lazy"
          className="max-h-[50vh] max-w-full rounded-sm bg-white"
        />
      )}
      {item.output && <CodeBlock language="" text={item.output} label={t`Result`} />}
      {!item.output && item.status === "ok" && (
        <p className="text-meta text-fg3">
          <Trans>No output.</Trans>
        </p>
      )}
      {item.truncated && (
        <p className="text-meta text-fg3">
          <Trans>Truncated. The terminal has the full output.</Trans>
        </p>
      )}
    </>
  );
}

/** Link to what the server has of a call: the run in Code, the picture among the artifacts, any other in the tool calls of the timeline. */
function Recorded({ call }: { call: Call }) {
  const tab = call.run ? "code" : call.picture ? "artifacts" : "timeline";
  return (
    <Link
      to="."
      search={(s) => ({ ...s, tab, item: call.run ?? call.picture, session: undefined, place: undefined })}
      className="min-h-6 text-meta text-accent hover:underline pointer-coarse:min-h-11"
    >
      {call.run ? t`Open in Code` : call.picture ? t`Open the artifact` : t`Open the recorded calls`}
    </Link>
  );
}

function Edit({ row, toggle }: { row: Row; toggle: (() => void) | undefined }) {
  const { item, open } = row;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-2">
      <div className="min-w-0">
        <Foldable
          open={open}
          toggle={toggle}
          head={
            <>
              <StatusShape item={item} />
              <span className="shrink-0 font-medium">{item.status === "running" ? t`Edits` : t`Edited`}</span>
              <span className="min-w-0 truncate font-mono text-code text-fg2">{item.path}</span>
              <Counts additions={item.added} deletions={item.removed} />
              <Status item={item} />
            </>
          }
        >
          {item.diff && <DiffBlock diff={item.diff} cut={item.truncated} />}
          {item.output && <CodeBlock language="" text={item.output} label={t`Result`} />}
        </Foldable>
      </div>
      {item.path && !item.path.startsWith("/") && (
        <Link
          to="."
          search={(s) => ({ ...s, tab: "changes", file: item.path, session: undefined, place: undefined })}
          aria-label={t`${item.path} in Changes`}
          title={t`Show it in Changes`}
          className="grid h-6 w-6 place-items-center rounded-sm text-fg2 hover:bg-bg2 hover:text-fg pointer-coarse:h-11 pointer-coarse:w-11"
        >
          <Icon name="external" size={14} />
        </Link>
      )}
    </div>
  );
}

function Remark({ row, toggle }: { row: Row; toggle: (() => void) | undefined }) {
  const { item, open } = row;
  const words = item.topic === "output" ? firstLine(item.text) : item.text;
  return (
    <Foldable
      open={open}
      toggle={toggle}
      head={
        <>
          {item.topic === "interrupt" && <Shape kind="stopped" />}
          <span
            className={cx(
              "min-w-0 text-fg2",
              toggle ? "truncate" : "break-words",
              item.topic === "output" && "font-mono text-code",
            )}
          >
            {words}
          </span>
        </>
      }
    >
      {item.topic === "output" ? (
        <CodeBlock language="" text={item.text} label={t`Output`} />
      ) : (
        item.output && (
          <div className="text-fg2">
            <Prose text={item.output} />
          </div>
        )
      )}
    </Foldable>
  );
}
