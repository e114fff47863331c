import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useNow } from "@/format/now";
import { short, visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { useTeam } from "@/state/team";
import { Box } from "./box";
import { type Comment, useComments } from "./data";
import { aboutOf, type Thread } from "./places";

interface Props {
  workspace: string;
  thread: Thread;
  /** In the list of all: what the lines were is shown always. */
  listed?: boolean;
  /** Called when the user follows the link to the answering change. */
  onGo?: () => void;
  children?: ReactNode;
}

/** A comment thread: comments, what became of them, and actions. */
export function ThreadView({ workspace, thread: t, listed, onGo, children }: Props) {
  const team = useTeam();
  const may = team.can("workspace.edit");
  const { add, edit } = useComments(workspace);
  const [reply, setReply] = useState<string>();
  const c = t.root;
  const draft = !t.review;
  const resolved = c.state === "resolved";
  const [open, setOpen] = useState(false);
  const label = tr`Comment by ${visible(c.author_name)} on ${aboutOf(c)}${resolved ? tr`, resolved` : ""}`;

  if (resolved && !open && !listed)
    return (
      <section aria-label={label} className={SHELL}>
        <button
          type="button"
          onClick={() => setOpen(true)}
          className="flex min-h-6 w-full items-baseline gap-2 text-left text-meta text-fg3 pointer-coarse:min-h-11"
        >
          <span className="whitespace-nowrap">
            <Trans>✓ Resolved</Trans>
          </span>
          <span className="min-w-0 flex-1 truncate text-fg2">
            {visible(c.author_name)}: {c.body}
          </span>
          <span>
            <Trans>Show</Trans>
          </span>
        </button>
      </section>
    );

  return (
    <section aria-label={label} className={cx(SHELL, draft && "border-l-2 border-l-accent")}>
      {children}
      {(c.outdated || listed) && c.line > 0 && <Quote comment={c} />}
      {!listed && !c.outdated && c.current_path && c.current_path !== c.path && (
        <p className="text-meta break-words text-fg3">
          <Trans>
            Moved here from <span className="font-mono">{visible(c.path)}</span>, {aboutOf(c)}
          </Trans>
        </p>
      )}
      <Said workspace={workspace} comment={c} draft={draft} />
      {t.replies.map((r) => (
        <div key={r.id} className="mt-2 border-t border-hairline pt-2">
          <Said workspace={workspace} comment={r} draft={t.drafts.has(r.id)} />
        </div>
      ))}
      <Answered comment={c} onGo={onGo} />
      {!draft && may && (
        <div className="mt-1">
          {reply === undefined ? (
            <div className="-ml-2.5 flex flex-wrap gap-1">
              <Button look="quiet" onClick={() => setReply("")}>
                <Trans>Answer</Trans>
              </Button>
              <Button
                look="quiet"
                busy={edit.isPending && tr`Saving`}
                onClick={() => edit.mutate({ comment: c.id, state: resolved ? "open" : "resolved" })}
              >
                {resolved ? tr`Reopen` : tr`Resolve`}
              </Button>
              {resolved && !listed && (
                <Button look="quiet" onClick={() => setOpen(false)}>
                  <Trans>Hide</Trans>
                </Button>
              )}
            </div>
          ) : (
            <Box
              autoFocus
              label={tr`Reply to ${visible(c.author_name)}`}
              text={reply}
              onText={setReply}
              action={tr`Add to the review`}
              busy={add.isPending}
              error={add.error}
              onCancel={() => setReply(undefined)}
              onDone={() => add.mutate({ body: reply, reply_to: c.id }, { onSuccess: () => setReply(undefined) })}
            />
          )}
        </div>
      )}
    </section>
  );
}

const SHELL =
  "mx-2 my-1.5 max-w-3xl rounded-md border border-hairline bg-bg1 px-3 py-2 font-sans text-body leading-5 whitespace-normal";

/** What one person said. A draft can be changed. */
function Said({ workspace, comment: c, draft }: { workspace: string; comment: Comment; draft: boolean }) {
  const now = useNow();
  const { edit, remove } = useComments(workspace);
  const [text, setText] = useState<string>();
  if (text !== undefined)
    return (
      <Box
        autoFocus
        label={tr`Your comment`}
        text={text}
        onText={setText}
        action={tr`Keep`}
        busy={edit.isPending}
        error={edit.error}
        onCancel={() => setText(undefined)}
        onDone={() => edit.mutate({ comment: c.id, body: text }, { onSuccess: () => setText(undefined) })}
      />
    );
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
        <span className="font-medium text-fg">{c.mine ? tr`You` : visible(c.author_name)}</span>
        <span title={exact(c.created_at)}>{ago(c.created_at, now)}</span>
        {draft && (
          <span className="text-accent">
            <Trans>Draft</Trans>
          </span>
        )}
        {c.outdated && !c.reply_to && (
          <span>
            <Trans>Outdated</Trans>
          </span>
        )}
        {c.state === "resolved" && (
          <span>
            <Trans>✓ Resolved{c.resolved_by ? tr` by ${visible(c.resolved_by)}` : ""}</Trans>
          </span>
        )}
      </p>
      <p className="break-words whitespace-pre-wrap">{c.body}</p>
      {draft && (
        <div className="-ml-2.5 flex flex-wrap gap-1">
          <Button look="quiet" onClick={() => setText(c.body)}>
            <Trans>Edit</Trans>
          </Button>
          <Button look="quiet" busy={remove.isPending && tr`Deleting`} onClick={() => remove.mutate(c)}>
            <Trans>Delete</Trans>
          </Button>
        </div>
      )}
    </>
  );
}

/** The lines as they were when they were commented. */
function Quote({ comment: c }: { comment: Comment }) {
  const lines = c.quoted.split("\n").slice(0, 12);
  return (
    <figure className="mb-1.5">
      <figcaption className="text-meta text-fg3">
        {visible(c.path)}, {aboutOf(c)}
        {c.outdated ? tr` original code` : ""}
      </figcaption>
      <pre className="rounded-sm bg-bg3 px-2 py-1 font-mono text-code leading-[18px] break-words whitespace-pre-wrap">
        {lines.map((l, i) => `${String(c.line + i).padStart(4)}  ${visible(l)}`).join("\n")}
        {c.end_line - c.line >= 12 ? "\n  …" : ""}
      </pre>
    </figure>
  );
}

/** What answered a comment: a commit, an agent's turn, or a change in between. */
function Answered({ comment: c, onGo }: { comment: Comment; onGo?: () => void }) {
  const now = useNow();
  const a = c.answered;
  if (!a) return null;
  const rev = a.kind === "commit" ? a.commit : a.snapshot_id;
  return (
    <p className="mt-1 flex flex-wrap items-baseline gap-x-2 text-meta text-fg2">
      <Mark kind="review" word={tr`Changed`} />
      {a.kind === "commit" ? (
        <span className="min-w-0 break-words">
          <Trans>
            by commit <span className="font-mono">{short(a.commit)}</span> {visible(a.title)}
          </Trans>
        </span>
      ) : a.kind === "turn" ? (
        <span className="min-w-0 break-words">
          <Trans>in the agent’s turn {a.title ? `“${visible(a.title)}”` : ""}</Trans>
        </span>
      ) : (
        <span>
          <Trans>since, not committed yet</Trans>
        </span>
      )}
      <span title={exact(a.at)} className="text-fg3">
        {ago(a.at, now)}
      </span>
      {rev && (
        <Link
          to="."
          onClick={onGo}
          search={(s) => ({
            ...s,
            tab: "changes",
            from: `${rev}^`,
            to: rev,
            file: c.current_path || c.path,
            line: undefined,
          })}
          className="inline-flex min-h-6 items-center text-accent hover:underline pointer-coarse:min-h-11"
        >
          {a.kind === "commit" ? tr`Show the commit` : a.kind === "turn" ? tr`Show the turn` : tr`Show the change`}
        </Link>
      )}
    </p>
  );
}
