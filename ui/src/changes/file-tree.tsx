import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type KeyboardEvent, memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { treeMove } from "@/files/move";
import { Status, statusWord } from "@/files/status";
import { FilterField, FolderName, type RowPlace, Tree, TreeItem, useTree } from "@/files/tree";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Counts } from "@/kit/states";
import { type TreeRow, treeRows } from "./diff/tree";
import type { ChangedFile } from "./diff/types";
import type { Merged } from "./merged";

export interface TreeProps {
  files: readonly ChangedFile[];
  isViewed: (f: ChangedFile) => boolean;
  /** Paths that are newer than what is being read. */
  newer: ReadonlySet<string>;
  added: Merged;
  current: string | undefined;
  /** Files that may be chosen for the commit, and whether they are; undefined when nobody may commit here. */
  choices: ReadonlyMap<string, boolean> | undefined;
  onCheck: (paths: string[], on: boolean) => void;
  onViewed: (path: string, on: boolean) => void;
  onOpen: (path: string) => void;
}

/** The changed files as a tree, however many. */
export function FileTree({ files, isViewed, newer, added, current, choices, onCheck, onViewed, onOpen }: TreeProps) {
  const [filter, setFilter] = useState("");
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const wanted = filter.trim().toLowerCase();
  const found = useMemo(
    () =>
      wanted ? files.filter((f) => f.path.toLowerCase().includes(wanted) || statusWord(f).includes(wanted)) : files,
    [files, wanted],
  );
  const rows = useMemo(() => treeRows(found, wanted ? NOTHING : closed, isViewed), [found, wanted, closed, isViewed]);
  const tree = useTree(rows, current);
  const { scroller, look, scrollTo, at, setActive, focusRow } = tree;
  // The file that is read stays in sight, unless somebody works in the tree.
  const rowsNow = useRef(rows);
  rowsNow.current = rows;
  useEffect(() => {
    if (current === undefined || scroller.current?.contains(document.activeElement)) return;
    const i = rowsNow.current.findIndex((r) => r.kind === "file" && r.path === current);
    if (i >= 0) scrollTo(i);
  }, [current, scrollTo, scroller]);

  const toggle = useCallback(
    (path: string, open?: boolean) =>
      setClosed((old) => {
        const next = new Set(old);
        if (open ?? next.has(path)) next.delete(path);
        else next.add(path);
        return next;
      }),
    [],
  );
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
    const row = rows[at];
    if (!row) return;
    const move = treeMove(e.key, rows, at);
    if (e.key === " ") {
      const paths = pathsOf(row, found).filter((p) => choices?.has(p));
      if (paths.length > 0) onCheck(paths, !paths.every((p) => choices?.get(p)));
    } else if (!move) return;
    else if (move === "use") row.kind === "folder" ? toggle(row.path) : onOpen(row.path);
    else if ("to" in move) focusRow(move.to);
    else toggle(row.path, move.open);
    e.preventDefault();
    e.stopPropagation();
  };

  // Scrolling draws often: what goes over all files is kept.
  const choosable = useMemo(() => (choices ? found.filter((f) => choices.has(f.path)) : []), [choices, found]);
  const chosen = useMemo(() => choosable.filter((f) => choices?.get(f.path)).length, [choosable, choices]);
  const viewedCount = useMemo(() => files.reduce((n, f) => n + (isViewed(f) ? 1 : 0), 0), [files, isViewed]);
  return (
    <>
      <div className="flex items-center gap-2 border-b border-hairline bg-bg1 px-3 py-1.5">
        {choices && (
          <input
            type="checkbox"
            aria-label={t`Choose all files for the commit`}
            disabled={choosable.length === 0}
            checked={choosable.length > 0 && chosen === choosable.length}
            ref={(el) => {
              if (el) el.indeterminate = chosen > 0 && chosen < choosable.length;
            }}
            onChange={(e) =>
              onCheck(
                choosable.map((f) => f.path),
                e.target.checked,
              )
            }
            className="size-3.5 accent-fill"
          />
        )}
        <FilterField
          placeholder={t`Filter ${plural(files.length, { one: "# file", other: "# files" })}`}
          value={filter}
          onChange={setFilter}
        />
        {viewedCount > 0 && (
          <span className="text-meta whitespace-nowrap text-fg3">
            <Trans>
              {viewedCount} of {files.length} viewed
            </Trans>
          </span>
        )}
      </div>
      <div ref={scroller} onScroll={look} className="min-h-0 flex-1 overflow-y-auto" data-files={found.length}>
        {rows.length === 0 && (
          <p className="p-3 text-fg3">{files.length === 0 ? t`No changed files.` : t`No file matches.`}</p>
        )}
        {rows.length > 0 && (
          <Tree label={t`Changed files`} rows={rows} tree={tree} onKeyDown={onKeyDown}>
            {(row, place) => (
              <Row
                key={row.path}
                {...place}
                row={row}
                current={row.kind === "file" && row.path === current}
                viewed={row.kind === "file" && isViewed(row.file)}
                newer={newer.has(row.path)}
                checked={choices && row.kind === "file" ? (choices.get(row.path) ?? "done") : undefined}
                added={added}
                onActive={setActive}
                onToggle={toggle}
                onOpen={onOpen}
                onCheck={onCheck}
                onViewed={onViewed}
              />
            )}
          </Tree>
        )}
      </div>
    </>
  );
}

const NOTHING: ReadonlySet<string> = new Set();

function pathsOf(row: TreeRow, files: readonly ChangedFile[]): string[] {
  return row.kind === "file" ? [row.path] : files.map((f) => f.path).filter((p) => p.startsWith(row.path));
}

interface RowProps extends RowPlace, Pick<TreeProps, "added" | "onCheck" | "onViewed" | "onOpen"> {
  row: TreeRow;
  current: boolean;
  viewed: boolean;
  newer: boolean;
  /** "done": committed already; undefined: nobody may commit here. */
  checked: boolean | "done" | undefined;
  onActive: (path: string) => void;
  onToggle: (path: string) => void;
}

/** One row. While the tree is scrolled those that stay are not drawn again. */
const Row = memo(function Row(p: RowProps) {
  const { row } = p;
  return (
    <TreeItem
      row={row}
      top={p.top}
      height={p.height}
      focusable={p.focusable}
      current={p.current}
      title={
        row.kind === "file" && row.file.old_path
          ? `${visible(row.file.old_path)} → ${visible(row.path)}`
          : visible(row.path)
      }
      onActive={p.onActive}
      onUse={() => (row.kind === "folder" ? p.onToggle(row.path) : p.onOpen(row.path))}
    >
      {row.kind === "folder" ? (
        <FolderRow row={row} />
      ) : (
        <FileRow
          row={row}
          viewed={p.viewed}
          newer={p.newer}
          marks={p.added.fileMarks(row.file)}
          checked={p.checked}
          onCheck={(on) => p.onCheck([row.path], on)}
          onViewed={(on) => p.onViewed(row.path, on)}
        />
      )}
    </TreeItem>
  );
});

function FolderRow({ row }: { row: Extract<TreeRow, { kind: "folder" }> }) {
  const done = row.viewed === row.files;
  return (
    <>
      <FolderName name={row.name} open={row.open} className={done ? "opacity-75" : undefined} />
      {!row.open && <Counts additions={row.additions} deletions={row.deletions} className="text-meta" />}
    </>
  );
}

interface FileRowProps {
  row: Extract<TreeRow, { kind: "file" }>;
  viewed: boolean;
  newer: boolean;
  marks: React.ReactNode;
  /** "done": committed already; undefined: nobody may commit here. */
  checked: RowProps["checked"];
  onCheck: (on: boolean) => void;
  onViewed: (on: boolean) => void;
}

function FileRow({ row, viewed, newer, marks, checked, onCheck, onViewed }: FileRowProps) {
  const f = row.file;
  return (
    <>
      {checked === "done" ? (
        <span title={t`Committed`} className="grid size-3.5 shrink-0 place-items-center text-merged">
          <Icon name="check" size={12} />
          <span className="sr-only">
            <Trans>committed</Trans>
          </span>
        </span>
      ) : (
        checked !== undefined && (
          <label className="-m-1.5 grid shrink-0 place-items-center p-1.5">
            <input
              type="checkbox"
              tabIndex={-1}
              aria-label={t`Commit ${visible(row.path)}`}
              checked={checked}
              onClick={(e) => e.stopPropagation()}
              onChange={(e) => onCheck(e.target.checked)}
              className="size-3.5 accent-fill"
            />
          </label>
        )
      )}
      <Status file={f} />
      <span className={cx("min-w-0 flex-1 truncate", viewed && "text-fg3")}>{visible(row.name)}</span>
      {marks}
      {newer && (
        <span className="text-accent" title={t`Changed since you started reading`}>
          <span aria-hidden>•</span>
          <span className="sr-only">
            <Trans>newer version available</Trans>
          </span>
        </span>
      )}
      {f.binary ? (
        <span className="text-meta text-fg3">
          <Trans>binary</Trans>
        </span>
      ) : (
        <Counts additions={f.additions} deletions={f.deletions} className="text-meta" />
      )}
      <span
        aria-hidden
        title={viewed ? t`Viewed` : t`Not viewed yet`}
        onClick={(e) => {
          e.stopPropagation();
          onViewed(!viewed);
        }}
        className={cx(
          "grid size-4 shrink-0 place-items-center",
          viewed ? "text-merged" : "text-transparent hover:text-fg3",
        )}
      >
        <Icon name="check" size={12} />
      </span>
      {viewed && (
        <span className="sr-only">
          <Trans>viewed</Trans>
        </span>
      )}
    </>
  );
}
