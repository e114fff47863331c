import type { Schemas } from "@/api/client";
import { visible } from "@/format/text";

export type Snapshot = Schemas["WorkspaceSnapshot"];

const BEFORE: Record<string, string> = {
  stop: "Before the sandbox stopped",
  archive: "Before archiving",
  delete: "Before deletion",
  discard: "Before changes were discarded",
  update: "Before an update from the base",
  move: "Before a move",
  restore: "Before a restore",
  edit: "Before an edit",
  take: "Before files were copied",
  undo: "Before an edit was undone",
};

/** The name of a snapshot. */
export function nameOf(s: Snapshot): string {
  const title = visible(s.title);
  switch (s.kind) {
    case "turn":
      return title ? `Turn: ${title}` : "Agent turn ended";
    case "commit":
      return `Commit: ${title || s.head.slice(0, 8)}`;
    case "kept": {
      // The title says of what: which files, which base.
      const before = BEFORE[s.reason];
      return before && title && !title.startsWith("Before ") ? `${before}: ${title}` : title || before || "Saved";
    }
    case "manual":
      return title || "Saved manually";
    default:
      return title || "Files changed";
  }
}
