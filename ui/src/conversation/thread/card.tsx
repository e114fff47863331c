import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { duration } from "@/format/time";
import { CodeBlock, DiffBlock } from "@/highlight/code";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { type MarkKind, Shape } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Counts } from "@/kit/states";
import { Foldable } from "../foldable";
import { type Shown, subagentsOf, titleOf, toolWords } from "./call";
import type { Call } from "./feed";
import { PartMedia } from "./media";
import { SubagentLines } from "./subagent-lines";
import type { WritingPart } from "./writing";

const RunCard = lazy(() => import("@/code/run-card"));

const STATES: Record<Call["state"], { mark: MarkKind; word: string }> = {
  pending: { mark: "setup", word: t`waits its turn` },
  asked: { mark: "needs", word: t`waits for your answer` },
  running: { mark: "running", word: t`runs` },
  done: { mark: "done", word: t`done` },
  failed: { mark: "failed", word: t`failed` },
  denied: { mark: "stopped", word: t`denied` },
  unknown: { mark: "stopped", word: t`outcome unknown` },
  skipped: { mark: "stopped", word: t`not begun` },
};

interface Props {
  call: Call;
  shown: Shown;
  open: boolean;
  toggle: (() => void) | undefined;
}

/** A call of a tool. */
export function CallCard({ call, shown, open, toggle }: Props) {
  const state = STATES[call.state];
  const took = call.started_at > 0 && call.ended_at > 0 ? call.ended_at - call.started_at : 0;
  const subagents = subagentsOf(call);
  const aside = shown.path !== "" && !shown.path.startsWith("/") && call.state === "done" && (
    <ToChanges path={shown.path} />
  );
  return (
    <Frame aside={aside}>
      <Foldable
        open={open}
        toggle={toggle}
        head={
          <>
            <Shape kind={state.mark} />
            <span className="shrink-0 font-medium">{toolWords(call.tool)}</span>
            <Title text={shown.title} />
            {shown.diff && <Counts additions={shown.added} deletions={shown.removed} />}
            <span className={cx("shrink-0", call.state === "done" ? "sr-only" : "text-meta text-fg2")}>
              {state.word}
            </span>
            {took >= 1000 && <span className="shrink-0 text-meta text-fg3 tabular-nums">{duration(took)}</span>}
          </>
        }
      >
        <Details call={call} shown={shown} />
      </Foldable>
      {subagents.length > 0 && <SubagentLines ids={subagents} />}
    </Frame>
  );
}

function Details({ call, shown }: { call: Call; shown: Shown }) {
  if (shown.run)
    return (
      <>
        <Suspense fallback={<CodeBlock language={shown.language} text={shown.input} />}>
          <RunCard id={shown.run} code={shown.input} language={shown.language} />
        </Suspense>
        <PartMedia parts={call.content.filter((p) => p.kind !== "image")} />
        <Recorded item={shown.run} tab="code">
          <Trans>Open in Code</Trans>
        </Recorded>
      </>
    );
  return (
    <>
      {shown.diff ? (
        <DiffBlock diff={shown.diff} cut={shown.cut} />
      ) : (
        shown.input && <CodeBlock language={shown.language} text={shown.input} label={t`Input`} />
      )}
      {shown.picture && (
        <Recorded item={shown.picture} tab="artifacts">
          <Trans>Open the artifact</Trans>
        </Recorded>
      )}
      {shown.output && <CodeBlock language="" text={shown.output} label={t`Result`} />}
      <PartMedia parts={call.content} />
      {!shown.output && !shown.diff && call.state === "done" && (
        <p className="text-meta text-fg3">
          <Trans>No output.</Trans>
        </p>
      )}
      {call.truncated && (
        <p className="text-meta text-fg3">
          <Trans>Something was left out of the result.</Trans>
        </p>
      )}
    </>
  );
}

/** A call whose arguments the model is writing. */
export function WritingCard({ part }: { part: WritingPart }) {
  const lines = part.text.split("\\n").length;
  return (
    <Frame>
      <div className="flex min-h-6 items-center gap-2">
        <Shape kind="running" className="ml-4" />
        <span className="shrink-0 font-medium">{toolWords(part.tool)}</span>
        <Title text={titleOf(part.text)} />
        <span className="shrink-0 text-meta text-fg2">
          <Trans>is being written</Trans>
          {lines > 2 && <span className="tabular-nums">, {plural(lines, { one: "# line", other: "# lines" })}</span>}
        </span>
      </div>
    </Frame>
  );
}

const Title = ({ text }: { text: string }) => (
  <span className="min-w-0 flex-1 truncate font-mono text-code text-fg2">{text}</span>
);

function Frame({ aside, children }: { aside?: ReactNode; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-2 panel px-2 py-0.5">
      <div className="min-w-0">{children}</div>
      {aside}
    </div>
  );
}

function ToChanges({ path }: { path: string }) {
  return (
    <Link
      to="."
      search={(s) => ({ ...s, tab: "changes", file: path, session: undefined, place: undefined })}
      aria-label={t`${path} in Changes`}
      title={t`Show it in Changes`}
      className="grid h-6 w-6 place-items-center rounded-sm text-fg2 hover:bg-bg2 hover:text-fg pointer-coarse:h-11 pointer-coarse:w-11"
    >
      <Icon name="external" size={14} />
    </Link>
  );
}

function Recorded({ item, tab, children }: { item: string; tab: "code" | "artifacts"; children: ReactNode }) {
  return (
    <Link
      to="."
      search={(s) => ({ ...s, tab, item, session: undefined, place: undefined })}
      className="min-h-6 text-meta text-accent hover:underline pointer-coarse:min-h-11"
    >
      {children}
    </Link>
  );
}
