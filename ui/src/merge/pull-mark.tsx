import { t } from "@lingui/core/macro";
import type { Schemas, Workspace } from "@/api/client";
import { cx } from "@/kit/cx";
import { MARKS, type MarkKind, Shape } from "@/kit/mark";

type Summary = Schemas["PullRequestSummary"];

/** The most important state of a pull request. */
export function pullState(p: Summary): { kind: MarkKind; word: string } {
  if (p.state === "merged") return { kind: "merged", word: t`merged` };
  if (p.state === "closed") return { kind: "stopped", word: t`closed` };
  if (p.checks_state === "failed") return { kind: "failed", word: t`checks failed` };
  if (p.checks_state === "pending") return { kind: "running", word: t`checks running` };
  if (p.state === "draft") return { kind: "idle", word: t`draft` };
  return { kind: "review", word: p.checks_state === "passed" ? t`open, checks passed` : t`open` };
}

/** The number of a workspace's pull request and how it stands, wherever the workspace shows; with link, the way to it. */
export function PullMark({ workspace: w, link }: { workspace: Pick<Workspace, "pull_request">; link?: boolean }) {
  const p = w.pull_request;
  if (!p) return null;
  const { kind, word } = pullState(p);
  const number = `${p.forge === "gitlab" ? "!" : "#"}${p.number}`;
  const words = p.forge === "gitlab" ? t`Merge request ${number}, ${word}` : t`Pull request ${number}, ${word}`;
  const inside = (
    <>
      <Shape kind={kind} className={kind === "running" ? "!animate-none" : undefined} />
      <span aria-hidden className="tabular-nums">
        {number}
      </span>
      <span className="sr-only">{words}</span>
    </>
  );
  const look = cx("inline-flex shrink-0 items-center gap-1 text-meta whitespace-nowrap", MARKS[kind].color);
  return link ? (
    <a href={p.url} target="_blank" rel="noreferrer noopener" title={words} className={cx(look, "hover:underline")}>
      {inside}
    </a>
  ) : (
    <span title={words} className={look}>
      {inside}
    </span>
  );
}
