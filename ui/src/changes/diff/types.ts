import type { Schemas } from "@/api/client";

/** One of the two states that are compared. Asked for by its snapshot or commit the answer stays the same for ever. */
export type Side = Schemas["Revision"];

/** A file that differs between the two. Paths are in wire form. */
export type ChangedFile = Schemas["ComparedFile"];

/** What differs between two states. */
export type Comparison = Schemas["Comparison"];

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
