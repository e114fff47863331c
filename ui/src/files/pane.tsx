import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  type DragEvent,
  type KeyboardEvent,
  type MouseEvent,
  type Ref,
  Suspense,
  useDeferredValue,
  useEffect,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Workspace } from "@/api/client";
import { tell } from "@/api/problem";
import { bytes, count, visible } from "@/format/text";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { inside, parentOf, uploadsOf, useFileActs } from "./acts";
import { treeMove } from "./move";
import type { Naming } from "./name-dialog";
import { usePaths } from "./paths";
import type { MenuTarget } from "./row-menu";
import { type FilesRow, filesRows, foldersOf, listingsOf } from "./rows";
import { Status } from "./status";
import { FilesSwitch } from "./switch";
import { FilterField, FolderName, Tree, TreeItem, useTree } from "./tree";
import { useFiles } from "./use-files";

const RowMenu = lazy(() => import("./row-menu"));
const NameDialog = lazy(() => import("./name-dialog"));

/** At most so many files that fit the filter are shown. */
const MOST_FILTERED = 1000;

/** What a row that is dragged carries: its path. */
const ROW = "application/x-parawork-path";

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
  /** Opens a file, or with nothing named closes the one that is open. */
  onOpen: (path?: string) => void;
  /** Nothing else is to be typed into: the filter has the cursor. */
  ready: boolean;
}

/** All files of a workspace as a tree; a folder is read when it is opened. */
export function FilesPane({ ref, workspace: w, current, open, onToggle, onOpen, ready }: Props) {
  const { listings, marks, changed, copy, refresh, busy } = useFiles(w.id, open);
  const can = useTeam().can("workspace.edit");
  const [filter, setFilter] = useState("");
  // All files are filtered, wherever they are; while their list is not there, those of the folders that were opened.
  const wanted = useDeferredValue(filter.trim());
  const { found } = usePaths(w.id, wanted, MOST_FILTERED, true);
  const filtered = useMemo(() => (found ? listingsOf(found.items.map((i) => i.path)) : undefined), [found]);
  const rows = useMemo(
    () =>
      filtered && filter.trim()
        ? filesRows(filtered, new Set(filtered.keys()), marks)
        : filesRows(listings, open, marks, filter),
    [filtered, listings, open, marks, filter],
  );
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

  const acts = useFileActs(w.id);
  const [menu, setMenu] = useState<MenuTarget>();
  const [naming, setNaming] = useState<Naming>();
  const picker = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState<string>();
  const moved = async (from: string, to: string) => {
    if (!(await acts.move(from, to)) || !current) return;
    if (current === from) onOpen(to);
    else if (current.startsWith(`${from}/`)) onOpen(to + current.slice(from.length));
  };
  const remove = async (row: FilesRow) => {
    if ((await acts.remove(row.path, row.kind === "folder")) && current)
      if (current === row.path || current.startsWith(`${row.path}/`)) onOpen();
  };
  const reveal = (folder: string) => {
    for (const f of foldersOf(`${folder}/`)) onToggle(f, true);
  };
  const does = {
    open: onOpen,
    newFile: (folder: string) =>
      setNaming({ title: t`New file`, action: t`Create`, start: inside(folder, ""), onName: onOpen }),
    newFolder: (folder: string) =>
      setNaming({
        title: t`New folder`,
        about: t`Git keeps no empty folders: neither do snapshots.`,
        action: t`Create`,
        start: inside(folder, ""),
        onName: (path) => void acts.makeFolder(path).then((made) => made && reveal(path)),
      }),
    upload: (folder: string, whole: boolean) => {
      const input = picker.current;
      if (!input) return;
      input.webkitdirectory = whole;
      input.dataset.folder = folder;
      input.click();
    },
    rename: (row: FilesRow) =>
      setNaming({
        title: t`Rename or move ${visible(row.name)}`,
        about: t`Folders on the way to a new path are created.`,
        action: t`Rename`,
        start: row.path,
        onName: (to) => void moved(row.path, to),
      }),
    remove: (row: FilesRow) => void remove(row),
  };
  const menuAt = (row: FilesRow | undefined, e: MouseEvent | KeyboardEvent) => {
    e.preventDefault();
    const box = e.currentTarget.getBoundingClientRect();
    const pointed = "clientX" in e && (e.clientX > 0 || e.clientY > 0);
    setMenu({ row, at: pointed ? { x: e.clientX, y: e.clientY } : { x: box.left + 24, y: box.top + 24 } });
  };
  const folderAt = (e: DragEvent) =>
    (e.target as HTMLElement).closest<HTMLElement>("[data-folder]")?.dataset.folder ?? "";
  const dragged = (e: DragEvent) =>
    can && (e.dataTransfer.types.includes("Files") || e.dataTransfer.types.includes(ROW));
  const onDrop = async (e: DragEvent) => {
    if (!dragged(e)) return;
    e.preventDefault();
    setOver(undefined);
    const folder = folderAt(e);
    const from = e.dataTransfer.getData(ROW);
    if (!from) return acts.upload(await uploadsOf(e.dataTransfer, folder));
    const to = inside(folder, from.slice(from.lastIndexOf("/") + 1));
    if (to !== from && !`${to}/`.startsWith(`${from}/`)) await moved(from, to);
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
    else if (row.kind !== "note" && can && e.key === "F2") does.rename(row);
    else if (row.kind !== "note" && can && e.key === "Delete") does.remove(row);
    else if (e.key === "ContextMenu" || (e.shiftKey && e.key === "F10")) {
      const item = (e.target as HTMLElement).getBoundingClientRect();
      setMenu({ row, at: { x: item.left + 24, y: item.bottom } });
    } else if (e.key.length === 1 && e.key !== " ") {
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

  const more = (
    <IconButton
      label={t`File actions`}
      aria-haspopup="menu"
      onClick={() => setMenu({ row: rows.find((r) => r.path === chosen) })}
    >
      <Icon name="more" size={14} />
    </IconButton>
  );
  const root = listings.get("");
  const top = rows[0];
  return (
    <div className="flex h-full min-h-0 flex-col">
      <FilesSwitch workspace={w} on="all" changed={changed} path={current} />
      <div className="flex items-center gap-1 border-b border-hairline bg-bg1 px-3 py-1">
        <FilterField
          ref={field}
          placeholder={t`Filter files`}
          value={filter}
          onChange={narrow}
          onKeyDown={onFieldKey}
        />
        <IconButton label={t`Refresh`} aria-busy={busy || undefined} onClick={() => refresh()}>
          <Icon name="refresh" size={14} />
        </IconButton>
        {menu && !menu.at ? (
          <Suspense fallback={more}>
            <RowMenu {...{ workspace: w, target: menu, can, does }} trigger={more} onClose={() => setMenu(undefined)} />
          </Suspense>
        ) : (
          more
        )}
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={t`Files to upload`}
          onChange={(e) => {
            const folder = e.target.dataset.folder ?? "";
            reveal(folder);
            const files = [...(e.target.files ?? [])];
            void acts.upload(
              files.map((file) => ({ path: inside(folder, file.webkitRelativePath || file.name), file })),
            );
            e.target.value = "";
          }}
        />
      </div>
      {copy && (
        <p role="note" className="border-b border-hairline bg-bg2 px-3 py-1.5 text-meta text-fg2">
          <Trans>
            The sandbox is not running. These are its files as last synced, without those git ignores. Start the
            workspace to create or move folders.
          </Trans>
        </p>
      )}
      {found && filter.trim() && found.total > found.items.length && (
        <p role="status" className="border-b border-hairline px-3 py-1 text-meta text-fg3">
          <Trans>
            The best {count(found.items.length)} of {count(found.total)} files are shown.
          </Trans>
        </p>
      )}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the tree inside has the keys, this is where files are dropped */}
      <div
        ref={scroller}
        onScroll={look}
        onContextMenu={(e) => menuAt(undefined, e)}
        onDragOver={(e) => {
          if (!dragged(e)) return;
          e.preventDefault();
          setOver(folderAt(e));
        }}
        onDragLeave={() => setOver(undefined)}
        onDrop={(e) => void onDrop(e)}
        className={cx("min-h-0 flex-1 overflow-y-auto", over === "" && "outline-2 -outline-offset-2 outline-accent")}
      >
        {!root?.items ? (
          root?.error ? (
            <Failure
              className="m-3"
              what={t`The files could not be listed.`}
              error={root.error}
              retry={() => refresh("")}
            />
          ) : (
            <Skeleton rows={8} label={t`Loading the files`} />
          )
        ) : top?.kind === "note" && top.note === "empty" && top.depth === 0 ? (
          <Empty title={t`No files`}>
            <Trans>Files appear here as the agent writes them.</Trans>
          </Empty>
        ) : rows.length === 0 ? (
          <p role="status" className="p-3 text-fg3">
            <Trans>No file matches.</Trans>
          </p>
        ) : (
          <Tree label={t`All files`} rows={rows} tree={tree} onKeyDown={onKeyDown}>
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
                extra={{
                  "data-folder": folderOf(row),
                  draggable: can && row.kind !== "note",
                  onDragStart: (e) => e.dataTransfer.setData(ROW, row.path),
                  onContextMenu: (e) => {
                    e.stopPropagation();
                    setActive(row.path);
                    menuAt(row, e);
                  },
                  className: cx(row.kind === "folder" && over === row.path && "outline-2 outline-accent"),
                }}
              >
                <RowText row={row} />
              </TreeItem>
            )}
          </Tree>
        )}
      </div>
      <Suspense>
        {menu?.at && (
          <RowMenu
            {...{ workspace: w, target: menu, can, does }}
            key={`${menu.at.x} ${menu.at.y}`}
            onClose={() => {
              setMenu(undefined);
              focusRow(at);
            }}
          />
        )}
        {naming && <NameDialog naming={naming} onClose={() => setNaming(undefined)} />}
      </Suspense>
    </div>
  );
}

/** The folder that a row stands for, or is in. */
const folderOf = (row: FilesRow) =>
  row.kind === "folder" ? row.path : row.kind === "note" ? row.path.slice(0, -1) : parentOf(row.path);

/** Of what git ignores: its words are read as well as others, but stand back. */
const DIM = "text-fg3 italic";

function RowText({ row }: { row: FilesRow }) {
  switch (row.kind) {
    case "folder":
      return (
        <>
          <FolderName name={row.name} open={row.open} className={row.ignored ? DIM : undefined} />
          {row.ignored && (
            <span className="sr-only">
              <Trans>ignored by git</Trans>
            </span>
          )}
          {row.changed && (
            <span className="w-3 shrink-0 text-center text-accent">
              <span aria-hidden>•</span>
              <span className="sr-only">
                <Trans>holds changed files</Trans>
              </span>
            </span>
          )}
        </>
      );
    case "file":
      return (
        <>
          <span className="w-3 shrink-0" />
          <span className={cx("min-w-0 flex-1 truncate", row.entry.ignored && DIM)}>
            {visible(row.name)}
            {row.entry.ignored && (
              <span className="sr-only">
                {" "}
                <Trans>ignored by git</Trans>
              </span>
            )}
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
      return t`Loading…`;
    case "empty":
      return t`Empty folder`;
    case "truncated":
      return t`There are more: ${count(row.shown)} entries are listed.`;
    case "failed":
      return t`Could not be listed. Press to try again. ${tell(row.error).message}`;
  }
}
