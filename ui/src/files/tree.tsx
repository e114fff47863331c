import { t } from "@lingui/core/macro";
import { type HTMLAttributes, type KeyboardEvent, type ReactNode, type Ref, useMemo, useState } from "react";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { useMedia } from "@/kit/use-media";
import { useWindow } from "./use-window";

/** What a tree knows of each of its rows. */
export interface TreeNode {
  /** No two rows have the same. */
  path: string;
  kind: string;
  depth: number;
  /** Of a folder: whether it is open. */
  open?: boolean;
  /** How many rows its folder has, and which of them it is, from 1. */
  size: number;
  at: number;
}

/** A tree of files of which only the rows near what is on screen are drawn, and the row that has the keyboard. */
export function useTree(rows: readonly TreeNode[], current: string | undefined) {
  const rowHeight = useMedia("(pointer: coarse)") ? 44 : 28;
  const shown = useWindow(rowHeight);
  const { scroller, scrollTo } = shown;
  const [active, setActive] = useState<string>();
  const chosen = active ?? current;
  const at = useMemo(
    () =>
      Math.max(
        0,
        rows.findIndex((r) => r.path === chosen),
      ),
    [rows, chosen],
  );
  const focusRow = (i: number) => {
    const row = rows[i];
    if (!row) return;
    setActive(row.path);
    scrollTo(i);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>("[role=treeitem][tabindex='0']")?.focus());
  };
  return { ...shown, rowHeight, chosen, at, setActive, focusRow };
}

/** Where a row is drawn, and whether the Tab key reaches it. */
export interface RowPlace {
  top: number;
  height: number;
  focusable: boolean;
}

interface TreeProps<R extends TreeNode> {
  label: string;
  rows: readonly R[];
  tree: Pick<ReturnType<typeof useTree>, "box" | "rowHeight" | "at">;
  onKeyDown: (e: KeyboardEvent) => void;
  children: (row: R, place: RowPlace) => ReactNode;
}

/** The rows of a tree that are near what is on screen. */
export function Tree<R extends TreeNode>({ label, rows, tree, onKeyDown, children }: TreeProps<R>) {
  const { box, rowHeight, at } = tree;
  return (
    <div
      role="tree"
      aria-label={label}
      className="relative"
      style={{ height: rows.length * rowHeight }}
      onKeyDown={onKeyDown}
    >
      {rows.slice(box.first, box.first + box.count).map((row, k) => {
        const i = box.first + k;
        return children(row, { top: i * rowHeight, height: rowHeight, focusable: i === at });
      })}
    </div>
  );
}

interface ItemProps extends RowPlace {
  row: TreeNode;
  current: boolean;
  title: string;
  /** Something happens when it is clicked. */
  clickable?: boolean;
  onActive: (path: string) => void;
  onUse: () => void;
  /** What else the row answers to, such as dragging. */
  extra?: HTMLAttributes<HTMLDivElement> & { "data-folder"?: string };
  children: ReactNode;
}

/** One row of a tree. */
export function TreeItem({
  row,
  top,
  height,
  focusable,
  current,
  title,
  clickable = true,
  onActive,
  onUse,
  extra,
  children,
}: ItemProps) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree hears the keys of all its rows
    <div
      {...extra}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-setsize={row.size}
      aria-posinset={row.at}
      aria-expanded={row.kind === "folder" ? row.open : undefined}
      aria-current={current || undefined}
      tabIndex={focusable ? 0 : -1}
      onFocus={(e) => e.target === e.currentTarget && onActive(row.path)}
      onClick={onUse}
      title={title}
      className={cx(
        "absolute inset-x-0 flex items-center gap-1.5 pr-3 -outline-offset-2 [contain:layout_style] hover:bg-bg2",
        clickable && "cursor-pointer",
        current && "bg-bg3",
        extra?.className,
      )}
      style={{ top, height, paddingLeft: 8 + Math.min(row.depth, 12) * 12 }}
    >
      {children}
    </div>
  );
}

/** A folder's arrow and name. */
export function FolderName({ name, open, className }: { name: string; open: boolean; className?: string }) {
  return (
    <>
      <Icon name={open ? "chevronDown" : "chevronRight"} size={12} className="shrink-0 text-fg3" />
      <span className={cx("min-w-0 flex-1 truncate text-fg2", className)}>{visible(name)}</span>
    </>
  );
}

interface FilterProps {
  ref?: Ref<HTMLInputElement>;
  placeholder: string;
  value: string;
  onChange: (to: string) => void;
  onKeyDown?: (e: KeyboardEvent) => void;
}

/** The field above a tree that filters its files. */
export function FilterField({ ref, placeholder, value, onChange, onKeyDown }: FilterProps) {
  return (
    <div className="relative min-w-0 flex-1">
      <Icon name="search" size={13} className="pointer-events-none absolute top-1/2 left-1 -translate-y-1/2 text-fg3" />
      <input
        ref={ref}
        aria-label={t`Filter the files`}
        placeholder={placeholder}
        value={value}
        spellCheck={false}
        onChange={(e) => onChange(e.target.value)}
        onKeyDown={onKeyDown}
        className="h-6 w-full rounded-sm bg-transparent pl-6 pointer-coarse:h-9 pointer-coarse:text-touch"
      />
    </div>
  );
}
