/** One of the two states that are compared. */
export interface Side {
  /** As it was asked for: base, head, now, review, a snapshot's or a commit's id. */
  rev: string;
  /** The commit that stands for it, a snapshot's included: asked for by it, the answer stays the same for ever. */
  commit: string;
  snapshot_id?: string;
  /** ms UTC; 0 when nobody knows. */
  at: number;
  label: string;
}

export type FileStatus = "added" | "modified" | "deleted" | "renamed" | "type_changed";

/** Why a file's lines are not shown until they are asked for; "" when they are. */
export type Folded = "" | "generated" | "lock" | "deleted" | "huge" | "binary";

/** A file that differs between the two. Paths are in wire form. */
export interface ChangedFile {
  path: string;
  old_path?: string;
  status: FileStatus;
  mode: string;
  old_mode: string;
  /** Names the content of both sides: another mark is another change. */
  mark: string;
  additions: number;
  deletions: number;
  /** Of the newer side in bytes. */
  size: number;
  binary: boolean;
  folded: Folded;
  /** The reader has marked it as viewed, with the mark it has. */
  viewed: boolean;
}

/** What differs between two states. */
export interface Comparison {
  from: Side;
  to: Side;
  files: readonly ChangedFile[];
  additions: number;
  deletions: number;
  /** There are more files than are listed. */
  truncated: boolean;
  /** Files changed since `to` was. */
  newer: number;
}

export type SideName = "old" | "new";

/** Lines of one side of a file, 1-based and inclusive. */
export interface LineRange {
  path: string;
  side: SideName;
  line: number;
  end_line: number;
}

/** A hunk as git names it, counted with three lines around each change and no white space hidden. */
export interface HunkPlace {
  path: string;
  old_start: number;
  old_lines: number;
  new_start: number;
  new_lines: number;
}
