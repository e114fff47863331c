import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { visible } from "@/format/text";

export type Snapshot = Schemas["WorkspaceSnapshot"];

const BEFORE: Record<string, string> = {
  stop: t`Before the sandbox stopped`,
  archive: t`Before archiving`,
  delete: t`Before deletion`,
  discard: t`Before changes were discarded`,
  update: t`Before an update from the base`,
  move: t`Before a move`,
  restore: t`Before a restore`,
  edit: t`Before an edit`,
  take: t`Before files were copied`,
  undo: t`Before an edit was undone`,
};

/** The name of a snapshot. */
export function nameOf(s: Snapshot): string {
  const title = visible(s.title);
  switch (s.kind) {
    case "turn":
      return title ? t`Turn: ${title}` : t`Agent turn ended`;
    case "commit":
      return t`Commit: ${title || s.head.slice(0, 8)}`;
    case "kept": {
      // The title says of what: which files, which base.
      const before = BEFORE[s.reason];
      return before && title && !title.startsWith("Before ") ? `${before}: ${title}` : title || before || t`Saved`;
    }
    case "manual":
      return title || t`Saved manually`;
    default:
      return title || t`Files changed`;
  }
}
