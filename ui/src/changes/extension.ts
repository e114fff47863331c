import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import type { ChangedFile, Comparison, HunkPlace, LineRange, SideName } from "./diff/types";

/**
 * What stands below a line of the diff, or below a file's head (line 0). A line that is out of sight because nothing changed around
 * it is brought into sight. Its height may change at any time.
 */
export interface LineSlot {
  /** Unique and the same for as long as it is the same thing: what is typed in it stays. */
  key: string;
  path: string;
  side: SideName;
  /** The line it stands below; the last one of a range. */
  line: number;
  render: () => ReactNode;
}

/** What the page lends to those who add to it. It is a new object whenever something in it changed. */
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
  /** The lines somebody chose, else the line in hand; undefined where there is none. `text` has no line breaks at the ends. */
  chosen: () => (LineRange & { text: string[] }) | undefined;
  /** Shows these lines as chosen; undefined takes the choice off. */
  choose: (range: LineRange | undefined) => void;
  /** Brings a file, or a line of it, into sight: unfolds, loads and scrolls. */
  show: (path: string, line?: { side: SideName; line: number }) => void;
  /** Somebody works with the lines that are shown: they stay where they are until a refresh. */
  hold: () => void;
  /** Takes the newest state in. */
  refresh: () => void;
  /** Gives the focus back to the lines. */
  focus: () => void;
}

/**
 * What somebody adds to the page. Its parts are drawn again when the object is a new one: build it with useMemo. The functions are
 * called while rows are drawn: they must be cheap, and no hooks may be used in them (return a component that does).
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
