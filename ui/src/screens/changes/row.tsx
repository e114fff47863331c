import { memo, useState } from "react";
import { tell } from "@/api/problem";
import { findIn } from "@/diff/find";
import { tokensOf } from "@/diff/highlight";
import { GUTTER, MARK } from "@/diff/measure";
import type { DiffLine } from "@/diff/parse";
import type { Review } from "@/diff/review";
import { CUT, type FileView, type Note, type Row, STEP } from "@/diff/rows";
import { segments } from "@/diff/segments";
import { changedWords } from "@/diff/words";
import { bytes, count, mode, plural } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { FileHead } from "./file-head";

interface Props {
  row: Row;
  file: FileView;
  review: Review;
  /** Grows when highlighting came in: lines are drawn again. */
  paint: number;
  find: string;
  current: boolean;
  onViewed: () => void;
}

export const DiffRow = memo(
  function DiffRow({ row, file, review, find, current, onViewed }: Props) {
    switch (row.kind) {
      case "file":
        return <FileHead file={file} onFold={() => review.toggleFold(row.file)} onViewed={onViewed} />;
      case "note":
        return (
          <NoteRow
            note={row.note}
            file={file}
            onOpen={() => review.toggleFold(row.file)}
            onRetry={() => review.retry(row.file)}
          />
        );
      case "fold":
        return <FoldRow row={row} onOpen={(how) => review.open(row.file, row.at, how)} />;
      case "line":
        return <LineRow line={row.line} find={find} current={current} />;
      case "pair":
        return <PairRow left={row.left} right={row.right} find={find} current={current} />;
      case "end":
        return <div className="h-4" />;
    }
  },
  (a, b) => a.row === b.row && a.file === b.file && a.paint === b.paint && a.find === b.find && a.current === b.current,
);

const BG = { context: "", add: "bg-add-bg", del: "bg-del-bg" } as const;
const SIGN = { context: "", add: "+", del: "−" } as const;
const SIGN_COLOR = { context: "", add: "text-add", del: "text-del" } as const;
const WORD = { context: "", add: "added ", del: "removed " } as const;
const NUMBER = "shrink-0 select-none pr-2 text-right text-fg3";

function LineRow({ line, find, current }: { line: DiffLine; find: string; current: boolean }) {
  return (
    <div className={cx("flex", BG[line.kind], current && "shadow-[inset_3px_0_0_var(--accent)]")}>
      <span className={NUMBER} style={{ width: GUTTER }}>
        {line.old}
      </span>
      <span className={NUMBER} style={{ width: GUTTER }}>
        {line.new}
      </span>
      <Sign kind={line.kind} />
      <Text line={line} find={find} current={current} />
    </div>
  );
}

function PairRow({
  left,
  right,
  find,
  current,
}: {
  left?: DiffLine;
  right?: DiffLine;
  find: string;
  current: boolean;
}) {
  return (
    <div className={cx("grid grid-cols-2", current && "shadow-[inset_3px_0_0_var(--accent)]")}>
      <Half line={left} number={left?.old} find={find} current={current} />
      <div className="flex min-w-0 border-l border-hairline">
        <Half line={right} number={right?.new} find={find} current={current} right />
      </div>
    </div>
  );
}

interface HalfProps {
  line: DiffLine | undefined;
  number: number | undefined;
  find: string;
  current: boolean;
  right?: boolean;
}

function Half({ line, number, find, current, right }: HalfProps) {
  if (!line) return <div aria-hidden className="min-w-0 flex-1 bg-bg2 opacity-60" />;
  return (
    <div className={cx("flex min-w-0 flex-1", BG[line.kind])}>
      <span className={NUMBER} style={{ width: GUTTER }}>
        {number}
      </span>
      <Sign kind={line.kind} />
      {/* An unchanged line stands on both sides: it is read out once. */}
      <div aria-hidden={right && line.kind === "context" ? true : undefined} className="min-w-0 flex-1">
        <Text line={line} find={find} current={current} />
      </div>
    </div>
  );
}

function Sign({ kind }: { kind: DiffLine["kind"] }) {
  return (
    <span className={cx("shrink-0 select-none", SIGN_COLOR[kind])} style={{ width: MARK }}>
      <span aria-hidden>{SIGN[kind]}</span>
      {WORD[kind] && <span className="sr-only">{WORD[kind]}</span>}
    </span>
  );
}

function Text({ line, find, current }: { line: DiffLine; find: string; current: boolean }) {
  const [whole, setWhole] = useState(false);
  const long = line.text.length > CUT && !whole;
  const carriage = line.text.endsWith("\r");
  const body = carriage ? line.text.slice(0, -1) : line.text;
  const text = long ? body.slice(0, CUT) : body;
  const word = line.kind === "add" ? "word-add" : "word-del";
  const parts = segments(text, tokensOf(line), changedWords(line), find ? findIn(text, find) : []);
  return (
    <span className="diff-line min-w-0 flex-1 pr-3">
      {parts.map((p, i) =>
        p.cls || p.marked || p.hit >= 0 ? (
          <span
            key={i}
            className={cx(p.hit >= 0 ? "find-hit" : p.cls, p.marked && p.hit < 0 && word)}
            data-current={p.hit >= 0 && current ? true : undefined}
          >
            {p.text}
          </span>
        ) : (
          p.text
        ),
      )}
      {carriage && line.kind !== "context" && <Remark>carriage return</Remark>}
      {line.noNewline && <Remark>no line break at the end of the file</Remark>}
      {long && (
        <button
          type="button"
          onClick={() => setWhole(true)}
          className="ml-2 rounded-sm bg-bg3 px-1.5 font-sans text-meta text-accent"
        >
          {count(line.text.length - CUT)} more characters
        </button>
      )}
    </span>
  );
}

/** What cannot be seen in a line, said behind it. */
function Remark({ children }: { children: string }) {
  return <span className="ml-2 rounded-sm bg-bg3 px-1 font-sans text-[11px] text-fg2 select-none">{children}</span>;
}

function FoldRow({
  row,
  onOpen,
}: {
  row: Extract<Row, { kind: "fold" }>;
  onOpen: (how: "top" | "bottom" | "all") => void;
}) {
  const small = row.count >= 0 && row.count <= STEP;
  const button = "flex min-h-6 items-center gap-1 rounded-sm px-1.5 text-fg2 hover:bg-bg3 hover:text-fg";
  return (
    <div className="flex min-h-7 items-center gap-1 bg-bg1 pl-2 font-sans text-meta text-fg3">
      <button type="button" onClick={() => onOpen("all")} className={button} title="Show all of it">
        <Icon name="fold" size={13} />
        {row.count < 0 ? "The rest of the file" : plural(row.count, "unchanged line")}
      </button>
      {!small && row.edge !== "top" && (
        <button
          type="button"
          onClick={() => onOpen("top")}
          className={button}
          aria-label={`Show ${STEP} lines downwards`}
          title={`${STEP} lines downwards`}
        >
          <Icon name="down" size={13} />
          {STEP}
        </button>
      )}
      {!small && row.edge !== "bottom" && (
        <button
          type="button"
          onClick={() => onOpen("bottom")}
          className={button}
          aria-label={`Show ${STEP} lines upwards`}
          title={`${STEP} lines upwards`}
        >
          <Icon name="up" size={13} />
          {STEP}
        </button>
      )}
      {row.section && <span className="min-w-0 truncate font-mono text-[11px]">{row.section}</span>}
    </div>
  );
}

interface NoteProps {
  note: Note;
  file: FileView;
  onOpen: () => void;
  onRetry: () => void;
}

function NoteRow({ note, file: f, onOpen, onRetry }: NoteProps) {
  const c = f.change;
  const button = "min-h-6 text-accent hover:underline";
  const show = (
    <button type="button" onClick={onOpen} className={button}>
      Show it
    </button>
  );
  const text = (() => {
    switch (note) {
      case "loading":
        return <span className="late">Loading…</span>;
      case "error":
        return (
          <>
            <span role="alert">
              {f.loaded.state === "error" ? tell(f.loaded.error).message : "The diff could not be loaded."}
            </span>{" "}
            <button type="button" onClick={onRetry} className={button}>
              Try again
            </button>
          </>
        );
      case "binary":
        return c.status === "deleted"
          ? "A binary file was deleted."
          : `A binary file of ${bytes(c.size)}: no lines to show.`;
      case "large":
        return (
          <>
            {count(c.additions + c.deletions)} changed lines. {show}
          </>
        );
      case "deleted":
        return (
          <>
            The file was deleted{c.deletions > 0 ? `, ${plural(c.deletions, "line")}` : ""}.{" "}
            {!c.binary && c.deletions > 0 && show}
          </>
        );
      case "noisy":
        return <>Made by a tool. {show}</>;
      case "mode":
        return `Only its mode changed: ${mode(c.old_mode)} → ${mode(c.mode)}.`;
      case "empty":
        return "An empty file.";
      case "same":
        return c.status === "renamed" ? "Renamed, with the same content." : "No lines differ.";
      case "latin":
        return "Not UTF-8: shown as Latin-1.";
    }
  })();
  return <div className="px-4 py-2.5 font-sans text-fg2">{text}</div>;
}
