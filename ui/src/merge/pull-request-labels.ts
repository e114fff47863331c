import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import type { MarkKind } from "@/kit/mark";

type PullRequest = Schemas["PullRequest"];
type Said = Record<string, { kind: MarkKind; word: string }>;

/** What people on a forge call it. */
export const noun = (kind: string | undefined): string => (kind === "gitlab" ? t`merge request` : t`pull request`);

export const capital = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);

export const STATES = {
  draft: { kind: "idle", word: t`Draft` },
  open: { kind: "review", word: t`Open` },
  merged: { kind: "merged", word: t`Merged` },
  closed: { kind: "stopped", word: t`Closed` },
} as const satisfies Record<PullRequest["state"], { kind: MarkKind; word: string }>;

export const CHECKS = {
  pending: { kind: "running", word: t`Waiting` },
  passed: { kind: "review", word: t`Passed` },
  failed: { kind: "failed", word: t`Failed` },
  skipped: { kind: "stopped", word: t`Skipped` },
} as const satisfies Said;

export const REVIEWS = {
  approved: { kind: "review", word: t`approved` },
  changes: { kind: "needs", word: t`requested changes` },
  comment: { kind: "idle", word: t`commented` },
  waiting: { kind: "idle", word: t`review requested` },
} as const satisfies Said;
