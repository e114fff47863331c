import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useCallback, useMemo, useState } from "react";
import type { ChangedFile, LineRange } from "@/changes/diff/types";
import type { ChangesContext, ChangesExtension, LineSlot } from "@/changes/extension";
import { visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { Compose } from "./compose";
import { draftQuery, reviewsQuery } from "./data";
import { aboutOf, placeOf, threadsOf } from "./places";
import { Standing } from "./review-status";
import { ThreadView } from "./thread";
import { begin, revisionOf, writingIn } from "./writing";

const SendDialog = lazy(() => import("./send-dialog"));
const AllComments = lazy(() => import("./all-comments"));

/** Comments below the lines they are about, and the review they become. */
export function useComments(context: ChangesContext): ChangesExtension {
  const { workspace: w, comparison, chosen, choose, show, hold, focus } = context;
  const id = w.id;
  const team = useTeam();
  const may = team.can("workspace.edit");
  const reviews = useQuery(reviewsQuery(id));
  const draft = useQuery(draftQuery(id));
  const writing = useStore(writingIn(id));
  const [dialog, setDialog] = useState<"send" | "all">();

  const threads = useMemo(() => threadsOf(reviews.data?.items ?? [], draft.data), [reviews.data, draft.data]);

  const write = useCallback(
    (range: LineRange) => {
      hold();
      const revision = revisionOf(range.side === "old" ? comparison.from : comparison.to) ?? "";
      begin(id, { path: range.path, side: range.side, line: range.line, end_line: range.end_line, revision });
      show(range.path, range.line > 0 ? { side: range.side, line: range.end_line } : undefined);
    },
    [comparison, id, show, hold],
  );
  useAction(
    "diff.comment",
    () => {
      const at = chosen();
      if (at) write(at);
    },
    may,
  );
  useAction("review.send", () => setDialog("send"), may);
  useAction("review.comments", () => setDialog("all"));

  const lineSlots = useMemo<LineSlot[]>(() => {
    const out: LineSlot[] = [];
    for (const t of threads) {
      const at = placeOf(t.root, comparison);
      if (at) out.push({ key: `c:${t.root.id}`, ...at, render: () => <ThreadView workspace={id} thread={t} /> });
    }
    for (const x of writing) {
      const file = comparison.files.find((f) => f.path === x.path);
      if (!file) continue;
      const done = () => {
        choose(undefined);
        focus();
      };
      out.push({
        key: x.key,
        path: x.path,
        side: x.side,
        line: x.end_line,
        render: () => <Compose workspace={id} at={x.key} onDone={done} />,
      });
    }
    return out;
  }, [threads, writing, comparison, id, choose, focus]);

  const counts = useMemo(() => {
    const by = new Map<string, number>();
    for (const t of threads) {
      if (t.root.state === "resolved") continue;
      const at = placeOf(t.root, comparison);
      if (at) by.set(at.path, (by.get(at.path) ?? 0) + 1);
    }
    return by;
  }, [threads, comparison]);

  const drafts = draft.data?.comments.length ?? 0;
  const open = threads.filter((t) => t.review && t.root.state === "open").length;
  const standing = reviews.data?.summary;
  const all = reviews.data?.items;
  return useMemo<ChangesExtension>(
    () => ({
      lineSlots,
      lineActions: may
        ? (at) => {
            const range = within(at, context.chosen());
            return (
              <button
                type="button"
                aria-label={t`Comment on ${aboutOf(range)}`}
                title={t`Comment (c)`}
                onClick={() => write(range)}
                className="grid size-6 place-items-center rounded-sm bg-fill text-white hover:bg-fill-hover"
              >
                <Icon name="plus" size={14} />
              </button>
            );
          }
        : undefined,
      fileActions: may
        ? (file: ChangedFile) => (
            <button
              type="button"
              aria-label={t`Comment on ${visible(file.path)}`}
              title={t`Comment on the file`}
              onClick={() =>
                write({ path: file.path, side: file.status === "deleted" ? "old" : "new", line: 0, end_line: 0 })
              }
              className="grid size-6 shrink-0 place-items-center rounded-sm text-fg3 hover:bg-bg3 hover:text-fg pointer-coarse:size-11"
            >
              <Icon name="comment" size={13} />
            </button>
          )
        : undefined,
      fileMarks: (file: ChangedFile) => {
        const n = counts.get(file.path);
        return n ? (
          <span
            title={plural(n, { one: "# open comment", other: "# open comments" })}
            className="flex items-center gap-0.5 text-meta text-fg2 tabular-nums"
          >
            <Icon name="comment" size={12} />
            {n}
            <span className="sr-only"> {n === 1 ? t`open comment` : t`open comments`}</span>
          </span>
        ) : undefined;
      },
      toolbar: (
        <>
          <Button look="quiet" onClick={() => setDialog("all")} title={t`All comments (l)`}>
            <Icon name="comment" size={14} />
            <span>
              <span className="sr-only">
                <Trans>Comments</Trans>{" "}
              </span>
              {open + drafts}
            </span>
          </Button>
          {may && (
            <Button look={drafts > 0 ? "primary" : "plain"} onClick={() => setDialog("send")} title="Ctrl+Shift+Enter">
              <Trans>Review{drafts > 0 ? ` ${drafts}` : "…"}</Trans>
            </Button>
          )}
          {dialog && (
            <Suspense>
              {dialog === "send" ? (
                <SendDialog context={context} draft={draft.data} onClose={() => setDialog(undefined)} />
              ) : (
                <AllComments
                  workspace={context.workspace}
                  comparison={context.comparison}
                  threads={threads}
                  reviews={all ?? []}
                  onShow={(path, line) => {
                    setDialog(undefined);
                    context.show(path, line);
                  }}
                  onClose={() => setDialog(undefined)}
                />
              )}
            </Suspense>
          )}
        </>
      ),
      foot: standing && all ? <Standing workspace={id} standing={standing} reviews={all} may={may} /> : undefined,
    }),
    [lineSlots, may, counts, open, drafts, standing, all, dialog, context, draft.data, threads, write, id],
  );
}

/** The chosen lines, when the line in hand is the last or any of them; else the line alone. */
function within(at: LineRange, chosen: LineRange | undefined): LineRange {
  return chosen &&
    chosen.path === at.path &&
    chosen.side === at.side &&
    at.line >= chosen.line &&
    at.end_line <= chosen.end_line
    ? { path: chosen.path, side: chosen.side, line: chosen.line, end_line: chosen.end_line }
    : at;
}
