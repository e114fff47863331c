import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import type { Change, ChangeSet } from "@/api/client";
import type { ReviewView } from "@/diff/review";
import { plural, splitPath, visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Counts } from "@/kit/states";
import { isCoarse } from "@/state/look";
import { Status, statusWord } from "./status";

interface Props {
  files: readonly Change[];
  base: ChangeSet;
  /** Paths that are newer than what is being read. */
  newer: ReadonlySet<string>;
  viewed: ReviewView;
  current: string | undefined;
  /** Files not chosen for the commit; undefined when nobody may commit here. */
  unchecked: ReadonlySet<string> | undefined;
  onCheck: (paths: string[], on: boolean) => void;
  onOpen: (path: string) => void;
}

/** The changed files, however many. */
export function FileList({ files, newer, viewed, current, unchecked, onCheck, onOpen }: Props) {
  const [filter, setFilter] = useState("");
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    return wanted
      ? files.filter((f) => f.path.toLowerCase().includes(wanted) || statusWord(f).includes(wanted))
      : files;
  }, [files, filter]);
  const seen = useMemo(() => new Set(viewed.files.filter((f) => f.viewed).map((f) => f.change.path)), [viewed.files]);
  const open = rows.filter((f) => !f.committed);
  const checkedCount = unchecked ? open.filter((f) => !unchecked.has(f.path)).length : 0;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (isCoarse() ? 44 : 28),
    overscan: 12,
    getItemKey: (i) => rows[i]?.path ?? i,
  });

  return (
    <>
      <div className="flex items-center gap-2 border-b border-hairline bg-bg1 px-3 py-1.5">
        {unchecked && (
          <input
            type="checkbox"
            aria-label="Choose all files for the commit"
            disabled={open.length === 0}
            checked={open.length > 0 && checkedCount === open.length}
            ref={(el) => {
              if (el) el.indeterminate = checkedCount > 0 && checkedCount < open.length;
            }}
            onChange={(e) =>
              onCheck(
                open.map((f) => f.path),
                e.target.checked,
              )
            }
            className="size-3.5 accent-fill"
          />
        )}
        <div className="relative min-w-0 flex-1">
          <Icon
            name="search"
            size={13}
            className="pointer-events-none absolute top-1/2 left-1 -translate-y-1/2 text-fg3"
          />
          <input
            aria-label="Filter the files"
            placeholder={`Filter ${plural(files.length, "file")}`}
            value={filter}
            spellCheck={false}
            onChange={(e) => setFilter(e.target.value)}
            className="h-6 w-full rounded-sm bg-transparent pl-6 pointer-coarse:h-9 pointer-coarse:text-[16px]"
          />
        </div>
      </div>
      <div ref={scroller} className="min-h-0 flex-1 overflow-y-auto" data-files={rows.length}>
        {rows.length === 0 && <p className="p-3 text-fg3">No file of that name.</p>}
        <ul aria-label="Changed files" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const f = rows[item.index]!;
            return (
              <li
                key={item.key}
                aria-setsize={rows.length}
                aria-posinset={item.index + 1}
                className="absolute inset-x-0 flex"
                style={{ top: item.start, height: item.size }}
              >
                <FileRow
                  file={f}
                  current={f.path === current}
                  newer={newer.has(f.path)}
                  seen={seen.has(f.path)}
                  checked={unchecked && !f.committed ? !unchecked.has(f.path) : undefined}
                  selectable={unchecked !== undefined}
                  onCheck={(on) => onCheck([f.path], on)}
                  onOpen={() => onOpen(f.path)}
                />
              </li>
            );
          })}
        </ul>
      </div>
    </>
  );
}

interface RowProps {
  file: Change;
  current: boolean;
  newer: boolean;
  seen: boolean;
  /** undefined: committed already, or nobody may commit. */
  checked: boolean | undefined;
  selectable: boolean;
  onCheck: (on: boolean) => void;
  onOpen: () => void;
}

function FileRow({ file: f, current, newer, seen, checked, selectable, onCheck, onOpen }: RowProps) {
  const { dir, name } = splitPath(f.path);
  const full = visible(f.path);
  return (
    <div className={cx("flex min-w-0 flex-1 items-center gap-2 pr-3 pl-3 hover:bg-bg2", current && "bg-bg3")}>
      {selectable &&
        (checked === undefined ? (
          <span title="Committed" className="grid size-3.5 shrink-0 place-items-center text-merged">
            <Icon name="check" size={12} />
            <span className="sr-only">committed</span>
          </span>
        ) : (
          <label className="-m-1.5 grid shrink-0 place-items-center p-1.5">
            <input
              type="checkbox"
              aria-label={`Commit ${full}`}
              checked={checked}
              onChange={(e) => onCheck(e.target.checked)}
              className="size-3.5 accent-fill"
            />
          </label>
        ))}
      <button
        type="button"
        onClick={onOpen}
        aria-current={current || undefined}
        title={f.old_path ? `${visible(f.old_path)} → ${full}` : full}
        className="flex h-full min-w-0 flex-1 items-center gap-2 text-left -outline-offset-2"
      >
        <Status change={f} />
        <span className={cx("flex min-w-0 flex-1 items-baseline gap-1.5", seen && "opacity-75")}>
          <span className="max-w-full shrink-0 truncate">{visible(name) || full}</span>
          {dir && (
            <span className="min-w-0 truncate text-meta text-fg3 [direction:rtl]">
              &lrm;{visible(dir.slice(0, -1))}
            </span>
          )}
        </span>
        {newer && (
          <span className="text-accent" title="Changed since you began to read">
            <span aria-hidden>•</span>
            <span className="sr-only">newer than shown</span>
          </span>
        )}
        {f.binary ? (
          <span className="text-meta text-fg3">binary</span>
        ) : (
          <Counts additions={f.additions} deletions={f.deletions} className="text-meta" />
        )}
      </button>
    </div>
  );
}
