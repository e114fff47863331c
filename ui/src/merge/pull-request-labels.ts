import type { Schemas } from "@/api/client";
import type { MarkKind } from "@/kit/mark";

type PullRequest = Schemas["PullRequest"];
type Said = Record<string, { kind: MarkKind; word: string }>;

/** What people on a forge call it. */
export const noun = (kind: string | undefined): string => (kind === "gitlab" ? "merge request" : "pull request");

export const capital = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);

export const STATES = {
  draft: { kind: "idle", word: "Draft" },
  open: { kind: "review", word: "Open" },
  merged: { kind: "merged", word: "Merged" },
  closed: { kind: "stopped", word: "Closed" },
} as const satisfies Record<PullRequest["state"], { kind: MarkKind; word: string }>;

export const CHECKS = {
  pending: { kind: "running", word: "Waiting" },
  passed: { kind: "review", word: "Passed" },
  failed: { kind: "failed", word: "Failed" },
  skipped: { kind: "stopped", word: "Skipped" },
} as const satisfies Said;

export const REVIEWS = {
  approved: { kind: "review", word: "approved" },
  changes: { kind: "needs", word: "requested changes" },
  comment: { kind: "idle", word: "commented" },
  waiting: { kind: "idle", word: "review requested" },
} as const satisfies Said;
