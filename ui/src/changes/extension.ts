import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import type { ChangedFile, Comparison, HunkPlace, LineRange, SideName } from "./diff/types";

/**
 * A widget below a line of the diff, or below a file's head (line 0). A line that is folded because nothing changed around
 * it is unfolded. The widget's height may change at any time.
 */
export interface LineSlot {
  /** Unique and stable, so text typed in the widget is preserved. */
  key: string;
  path: string;
  side: SideName;
  /** The line it stands below; the last one of a range. */
  line: number;
  render: () => ReactNode;
}

/** The page's API for extensions. A new object whenever something in it changed. */
export interface ChangesContext {
  workspace: Workspace;
  /** What is being read: `from.commit` and `to.commit` never change their content. */
  comparison: Comparison;
  /** What is read ends with the newest state, not with some earlier one. */
  live: boolean;
  /** Changes of white space are hidden: hunks are others than git's. */
  ignoreSpace: boolean;
  /** One column, on a phone. */
  narrow: boolean;
  /** The selected lines, else the current line; undefined if there is none. `text` has no line breaks at the ends. */
  chosen: () => (LineRange & { text: string[] }) | undefined;
  /** Selects these lines; undefined clears the selection. */
  choose: (range: LineRange | undefined) => void;
  /** Reveals a file or one of its lines: unfolds, loads and scrolls. */
  show: (path: string, line?: { side: SideName; line: number }) => void;
  /** The user is working with the shown lines: they stay until a refresh. */
  hold: () => void;
  /** Loads the newest state. */
  refresh: () => void;
  /** Gives the focus back to the lines. */
  focus: () => void;
}

/**
 * An extension of the page. Its parts rerender when the object changes: build it with useMemo. The functions are
 * called during rendering: they must be cheap and must not call hooks (return a component that does).
 */
export interface ChangesExtension {
  lineSlots?: readonly LineSlot[];
  /** Buttons of 24 px in the margin of the line in hand or under the pointer. */
  lineActions?: (at: LineRange) => ReactNode;
  /** At the right of a hunk's head. Not asked while white space is hidden. */
  hunkActions?: (hunk: HunkPlace) => ReactNode;
  /** In a file's head, before "Viewed". */
  fileActions?: (file: ChangedFile) => ReactNode;
  /** In the list of files, behind the name: a count, a mark. */
  fileMarks?: (file: ChangedFile) => ReactNode;
  /** In the bar above the diff. */
  toolbar?: ReactNode;
  /** Below the list of files. */
  foot?: ReactNode;
}
