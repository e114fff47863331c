import { memo, type ReactNode } from "react";
import { LineRow, PairRow } from "./code-row";
import type { FileLayout } from "./diff/layout";
import type { Reading } from "./diff/reading";
import { type FileView, oneSided, SINGLE, specialAt } from "./diff/rows";
import type { LineRange } from "./diff/types";
import type { LineSlot } from "./extension";
import { FileHead } from "./file-head";
import type { Merged } from "./merged";
import { GapRow, NoteRow } from "./other-rows";
import { Picture } from "./picture";

export interface RowProps {
  layout: FileLayout;
  row: number;
  index: number;
  file: FileView;
  reading: Reading;
  added: Merged;
  /** Whether the file's highlighting is ready: only its lines rerender when it arrives. */
  colored: boolean;
  find: string;
  /** The hit that is looked at is here. */
  current: boolean;
  inHand: boolean;
  /** The chosen lines, if some are of this file. */
  chosen: LineRange | undefined;
  /** The actions of a line are shown here, for these lines. */
  acts: LineRange | undefined;
  ignoreSpace: boolean;
  onFold: (file: number) => void;
  onViewed: (file: number) => void;
}

/** One row of the diff, whatever it is. */
export const DiffRow = memo(
  function DiffRow(props: RowProps) {
    const { layout, row, index, file, reading, added } = props;
    const s = specialAt(layout.rows, row);
    if (!s) return <Code {...props} />;
    switch (s.kind) {
      case "file": {
        const { loaded } = file;
        const part = loaded.state === "ready" && loaded.hunks.length > 0 && !oneSided(file.file);
        return (
          <FileHead
            file={file}
            onFold={() => props.onFold(index)}
            onViewed={() => props.onViewed(index)}
            onAll={part ? () => reading.openAll(index) : undefined}
            actions={added.fileActions(file.file)}
          />
        );
      }
      case "note":
        return (
          <NoteRow
            note={s.note}
            file={file}
            height={layout.tops[row + 1]! - layout.tops[row]!}
            onOpen={() => reading.toggleFold(index)}
            onRetry={() => reading.retry(index)}
          />
        );
      case "gap":
        return (
          <GapRow
            gap={s}
            onOpen={(how) => reading.open(index, s.at, how)}
            actions={s.hunk && !props.ignoreSpace ? added.hunkActions(hunkOf(file, s.hunk)) : undefined}
          />
        );
      case "slot":
        return <Slot slot={added.slots.get(s.slot)} />;
      case "picture":
        return <Picture file={file.file} workspace={added.workspace} comparison={added.comparison} />;
      case "end":
        return <div className="h-4" />;
    }
  },
  (a, b) =>
    a.layout === b.layout &&
    a.row === b.row &&
    a.index === b.index &&
    a.file === b.file &&
    a.added === b.added &&
    a.colored === b.colored &&
    a.find === b.find &&
    a.current === b.current &&
    a.inHand === b.inHand &&
    a.chosen === b.chosen &&
    a.acts === b.acts &&
    a.ignoreSpace === b.ignoreSpace,
);

function hunkOf(f: FileView, h: { oldStart: number; oldLines: number; newStart: number; newLines: number }) {
  return {
    path: f.file.path,
    old_start: h.oldStart,
    old_lines: h.oldLines,
    new_start: h.newStart,
    new_lines: h.newLines,
  };
}

function Slot({ slot }: { slot: LineSlot | undefined }) {
  return <div className="font-sans text-body">{slot?.render()}</div>;
}

function Code({ layout, row, file, added, find, current, inHand, chosen, acts }: RowProps) {
  if (file.loaded.state !== "ready") return null;
  const { patch } = file.loaded;
  const a = layout.rows.a[row]!;
  const b = layout.rows.b[row]!;
  const within = (side: "old" | "new", i: number): boolean => {
    if (!chosen || chosen.side !== side || i < 0) return false;
    const n = side === "old" ? patch.old[i]! : patch.new[i]!;
    return n >= chosen.line && n <= chosen.end_line;
  };
  const actions: ReactNode = acts && (
    <span className="absolute top-[-2px] left-0.5 z-[5] flex font-sans">{added.lineActions(acts)}</span>
  );
  const rest = { patch, find, current, inHand, actions };
  if (b === SINGLE)
    return <LineRow {...rest} index={a} chosen={within("old", a) || within("new", a)} narrow={layout.narrow} />;
  return (
    <PairRow
      {...rest}
      left={a}
      right={b}
      chosenLeft={within("old", a)}
      chosenRight={within("new", b)}
      actionsRight={acts?.side === "new"}
    />
  );
}
