import { type KeyboardEvent, type Ref, useEffect, useImperativeHandle, useMemo, useRef, useState } from "react";
import type { Workspace } from "@/api/client";
import { tell } from "@/api/problem";
import { bytes, count, visible } from "@/format/text";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { treeMove } from "./move";
import { type FilesRow, filesRows } from "./rows";
import { Status } from "./status";
import { FilesSwitch } from "./switch";
import { FilterField, FolderName, Tree, TreeItem, useTree } from "./tree";
import { useFiles } from "./use-files";

export interface FilesHandle {
  /** Puts the cursor into the filter. */
  find: () => void;
}

interface Props {
  ref: Ref<FilesHandle>;
  workspace: Workspace;
  /** The file that is open, or was last. */
  current: string | undefined;
  /** The open folders, which outlive the pane. */
  open: ReadonlySet<string>;
  onToggle: (folder: string, open: boolean) => void;
  onOpen: (path: string) => void;
  /** Nothing else is to be typed into: the filter has the cursor. */
  ready: boolean;
}

/** All files of a workspace as a tree; a folder is read when it is opened. */
export function FilesPane({ ref, workspace: w, current, open, onToggle, onOpen, ready }: Props) {
  const { listings, marks, changed, refresh, busy } = useFiles(w.id, open);
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => filesRows(listings, open, marks, filter), [listings, open, marks, filter]);
  const tree = useTree(rows, current);
  const { scroller, look, scrollTo, chosen, at, setActive, focusRow } = tree;
  const field = useRef<HTMLInputElement>(null);
  useImperativeHandle(ref, () => ({ find: () => field.current?.select() }), []);
  // On a phone a keyboard would cover half of the files.
  useEffect(() => {
    if (ready && !matchMedia("(pointer: coarse)").matches) field.current?.focus();
  }, [ready]);

  // A row to reveal once its folders are loaded: the open file, or a row that moves when the filter is cleared.
  const seek = useRef<string>(undefined);
  useEffect(() => {
    seek.current = current;
    setActive(undefined);
  }, [current, setActive]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another file is looked for in the same rows
  useEffect(() => {
    const i = seek.current === undefined ? -1 : rows.findIndex((r) => r.path === seek.current);
    if (i < 0) return;
    seek.current = undefined;
    scrollTo(i);
  }, [rows, current, scrollTo]);
  const narrow = (to: string) => {
    if (!to) seek.current = chosen;
    setFilter(to);
  };

  const use = (row: FilesRow) => {
    if (row.kind === "folder") {
      onToggle(row.path, filter ? true : !row.open);
      if (filter) {
        // All that is in it is to be seen, not only what the filter lets through.
        setFilter("");
        setActive(row.path);
        seek.current = row.path;
      }
    } else if (row.kind === "file") onOpen(row.path);
    else if (row.note === "failed") refresh(row.path.slice(0, -1));
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const row = rows[at];
    if (!row) return;
    const move = e.shiftKey ? undefined : treeMove(e.key, rows, at);
    if (move === "use") use(row);
    else if (move && "to" in move) focusRow(move.to);
    else if (move) onToggle(row.path, move.open);
    else if (e.key.length === 1 && e.key !== " ") {
      field.current?.focus(); // what is typed goes into the filter
      e.stopPropagation();
      return;
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const onFieldKey = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") focusRow(0);
    else if (e.key === "Enter") {
      const first = rows.find((r) => r.kind === "file");
      if (filter && first) onOpen(first.path);
    } else if (e.key === "Escape" && filter) narrow("");
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const root = listings.get("");
  const top = rows[0];
  return (
    <div className="flex h-full min-h-0 flex-col">
      <FilesSwitch workspace={w} on="all" changed={changed} path={current} />
      <div className="flex items-center gap-1 border-b border-hairline bg-bg1 px-3 py-1">
        <FilterField ref={field} placeholder="Filter files" value={filter} onChange={narrow} onKeyDown={onFieldKey} />
        <IconButton label="Refresh" aria-busy={busy || undefined} onClick={() => refresh()}>
          <Icon name="refresh" size={14} />
        </IconButton>
      </div>
      <div ref={scroller} onScroll={look} className="min-h-0 flex-1 overflow-y-auto">
        {!root?.items ? (
          root?.error ? (
            <Failure
              className="m-3"
              what="The files could not be listed."
              error={root.error}
              retry={() => refresh("")}
            />
          ) : (
            <Skeleton rows={8} label="Loading the files" />
          )
        ) : top?.kind === "note" && top.note === "empty" && top.depth === 0 ? (
          <Empty title="No files">Files appear here as the agent writes them.</Empty>
        ) : rows.length === 0 ? (
          <p role="status" className="p-3 text-fg3">
            No file matches in the folders you opened. Open more folders to search them.
          </p>
        ) : (
          <Tree label="All files" rows={rows} tree={tree} onKeyDown={onKeyDown}>
            {(row, place) => (
              <TreeItem
                key={row.path}
                {...place}
                row={row}
                current={row.kind === "file" && row.path === current}
                title={titleOf(row)}
                clickable={row.kind !== "note" || row.note === "failed"}
                onActive={setActive}
                onUse={() => use(row)}
              >
                <RowText row={row} />
              </TreeItem>
            )}
          </Tree>
        )}
      </div>
    </div>
  );
}

function RowText({ row }: { row: FilesRow }) {
  switch (row.kind) {
    case "folder":
      return (
        <>
          <FolderName name={row.name} open={row.open} />
          {row.changed && (
            <span className="w-3 shrink-0 text-center text-accent">
              <span aria-hidden>•</span>
              <span className="sr-only">holds changed files</span>
            </span>
          )}
        </>
      );
    case "file":
      return (
        <>
          <span className="w-3 shrink-0" />
          <span className="min-w-0 flex-1 truncate">
            {visible(row.name)}
            {row.entry.link !== undefined && <span className="text-fg3"> → {visible(row.entry.link)}</span>}
          </span>
          {row.status && <Status file={{ status: row.status }} />}
        </>
      );
    case "note":
      return (
        <>
          <span className="w-3 shrink-0" />
          <span className={cx("min-w-0 flex-1 truncate text-meta", row.note === "failed" ? "text-failed" : "text-fg3")}>
            {noteText(row)}
          </span>
        </>
      );
  }
}

function titleOf(row: FilesRow): string {
  if (row.kind === "note") return noteText(row);
  return row.kind === "file" && row.entry.type === "file"
    ? `${visible(row.path)}, ${bytes(row.entry.size)}`
    : visible(row.path);
}

function noteText(row: FilesRow & { kind: "note" }): string {
  switch (row.note) {
    case "loading":
      return "Loading…";
    case "empty":
      return "Empty folder";
    case "truncated":
      return `There are more: ${count(row.shown)} entries are listed.`;
    case "failed":
      return `Could not be listed. Press to try again. ${tell(row.error).message}`;
  }
}
