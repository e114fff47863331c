import { t } from "@lingui/core/macro";
import type { Comparison, SideName } from "@/changes/diff/types";
import type { Comment, Review } from "./data";

/** A comment and the answers to it, oldest first. */
export interface Thread {
  root: Comment;
  replies: readonly Comment[];
  /** The one it was sent with; undefined while it is a draft. */
  review?: Review;
  /** The comments of it that are in one's draft. */
  drafts: ReadonlySet<string>;
}

/** The comments of all reviews that were not taken back, and of one's draft, as conversations. */
export function threadsOf(reviews: readonly Review[], draft: Review | undefined): Thread[] {
  const drafts = new Set(draft?.comments.map((c) => c.id));
  const roots = new Map<string, { root: Comment; replies: Comment[]; review?: Review; drafts: ReadonlySet<string> }>();
  const replies: Comment[] = [];
  const take = (comments: readonly Comment[], review?: Review) => {
    for (const c of comments) {
      if (c.reply_to) replies.push(c);
      else roots.set(c.id, { root: c, replies: [], review, drafts });
    }
  };
  for (const r of reviews) if (r.state !== "cancelled") take(r.comments, r);
  if (draft) take(draft.comments);
  const reviewOf = new Map(reviews.map((r) => [r.id, r]));
  const alone: Comment[] = [];
  for (const c of replies) {
    const to = roots.get(c.reply_to ?? "");
    if (to) to.replies.push(c);
    else alone.push(c);
  }
  // The comment it replies to is deleted: show the reply on its own.
  for (const c of alone) roots.set(c.id, { root: c, replies: [], review: reviewOf.get(c.review_id), drafts });
  const out = [...roots.values()];
  for (const t of out) t.replies.sort((a, b) => a.created_at - b.created_at);
  return out.sort((a, b) => a.root.created_at - b.root.created_at);
}

export interface Place {
  path: string;
  side: SideName;
  /** The last line; 0 is the file's head. */
  line: number;
}

/**
 * Position of a comment in the displayed comparison: where it was written if these are the same files, else where the server last found its
 * lines. Undefined if the file has no changes here.
 */
export function placeOf(c: Comment, comparison: Comparison): Place | undefined {
  const shown = c.side === "old" ? comparison.from.commit : comparison.to.commit;
  const there = shown === c.commit;
  const path = there ? c.path : c.current_path || c.path;
  const file = comparison.files.find((f) => f.path === path || (c.side === "old" && f.old_path === path));
  if (!file) return undefined;
  if (c.line === 0) return { path: file.path, side: c.side, line: 0 };
  if (there) return { path: file.path, side: c.side, line: c.end_line };
  if (!c.current_path || c.current_line < 1) return { path: file.path, side: c.side, line: 0 };
  return { path: file.path, side: c.side, line: c.outdated ? c.current_line : c.current_line + (c.end_line - c.line) };
}

/** What a comment is about, in words. */
export function aboutOf(c: { path: string; side: SideName; line: number; end_line: number }): string {
  if (c.line === 0) return t`the file`;
  const lines = c.end_line > c.line ? t`lines ${c.line} to ${c.end_line}` : t`line ${c.line}`;
  return c.side === "old" ? t`${lines} of the old version` : lines;
}
