import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type PointerEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Workspace } from "@/api/client";
import { workspacesQuery } from "@/api/queries";
import { costOf } from "@/costs/workspace-cost";
import { within } from "@/format/text";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Divider } from "@/kit/divider";
import { Dragged, useDrag } from "@/kit/drag";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Shape } from "@/kit/mark";
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from "@/kit/menu";
import { Counts, Failure, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { Danger, onDangerous } from "@/machines/danger";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { GROUP_NAMES, SAYS_WHY } from "@/workspaces/groups";
import { movePin, pin, pinsOf, unpin } from "@/workspaces/pins";
import { PrivateMark } from "@/workspaces/private-mark";
import { PINNED, type Row, sidebarRows } from "@/workspaces/sidebar-rows";
import { filtering, inRange, setSidebar, sidebarView, toggled, WIDTH } from "@/workspaces/sidebar-view";
import { isUnread, markRead, markUnread, type Seen, seenOf } from "@/workspaces/unread";
import { WorkspaceKeys } from "./workspace-keys";

/** With more workspaces than this the field that filters them is always there. */
const FILTER_FROM = 15;

/** The team's workspaces, those that need a person first; on a phone only the keys. */
export default function Sidebar() {
  const view = useStore(sidebarView);
  const wide = useMedia("(min-width: 768px)");
  return (
    <>
      <WorkspaceKeys />
      {view.shown && wide && (
        <div className="flex shrink-0">
          <nav aria-label={t`Sidebar`} style={{ width: view.width }} className="flex min-h-0 flex-col bg-bg1">
            <Content />
          </nav>
          <Divider
            label={t`Width of the sidebar`}
            value={view.width}
            min={WIDTH.least}
            max={WIDTH.most}
            step={16}
            valueAt={(x) => x}
            onValue={(px) => setSidebar({ width: inRange(px) })}
            onReset={() => setSidebar({ width: WIDTH.usual })}
          />
        </div>
      )}
    </>
  );
}

function Content() {
  const team = useTeam();
  const list = useQuery(workspacesQuery(team.slug));
  if (list.isPending) return <Skeleton rows={5} label={t`Loading workspaces`} />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-3"
        what={t`The workspaces could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  if (list.data.length === 0)
    return (
      <p className="px-4 py-4 text-fg3">
        <Trans>No workspaces yet.</Trans>
      </p>
    );
  return <Rows list={list.data} />;
}

function Rows({ list }: { list: readonly Workspace[] }) {
  const team = useTeam();
  const view = useStore(sidebarView);
  const pins = useStore(pinsOf(team.slug));
  const seen = useStore(seenOf(team.slug));
  const asked = useStore(filtering);
  const [filter, setFilter] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const rows = useMemo(
    () => sidebarRows(list, { by: view.by, folded: view.folded, open: view.open, pins, filter }),
    [list, view.by, view.folded, view.open, pins, filter],
  );
  const many = useMemo(() => new Set(list.map((w) => w.project_id)).size > 1, [list]);
  useEffect(() => {
    if (asked) field.current?.focus();
  }, [asked]);
  const close = () => {
    setFilter("");
    filtering.set(false);
  };
  const drag = useDrag((id, zone) => {
    if (zone === "unpin") unpin(team.slug, [id]);
    else pin(team.slug, [id], zone === PINNED ? undefined : zone);
  });
  const unread = seen ? list.filter((w) => isUnread(w, seen)) : [];
  return (
    <>
      <div className="flex items-center gap-1 py-1 pr-1.5 pl-4">
        {asked || filter || list.length > FILTER_FROM ? (
          <input
            ref={field}
            type="search"
            aria-label={t`Filter workspaces`}
            placeholder={t`Filter`}
            value={filter}
            onChange={(e) => setFilter(e.target.value)}
            onBlur={() => !filter && filtering.set(false)}
            onKeyDown={(e) => {
              if (e.key === "Escape") close();
              else if (e.key === "ArrowDown") focusRow(e.currentTarget.closest("nav"), undefined, 1);
              else return;
              e.preventDefault();
            }}
            className={cx(inputClass, "min-w-0 flex-1")}
          />
        ) : (
          <>
            <span className="min-w-0 flex-1 truncate text-meta text-fg3">
              <Trans>Workspaces</Trans>
            </span>
            <IconButton label={t`Filter workspaces (/)`} onClick={() => filtering.set(true)}>
              <Icon name="search" size={14} />
            </IconButton>
          </>
        )}
        <Menu
          trigger={
            <IconButton label={t`How the sidebar is arranged`}>
              <Icon name="more" size={14} />
            </IconButton>
          }
        >
          <MenuLabel>
            <Trans>Group by</Trans>
          </MenuLabel>
          <MenuChoice
            value={view.by}
            onChange={(by) => setSidebar({ by })}
            choices={[
              ["state", t`State`],
              ["project", t`Project`],
            ]}
          />
          <MenuLine />
          <MenuItem disabled={unread.length === 0} onSelect={() => markRead(team.slug, unread)}>
            <Trans>Mark all as read</Trans>
          </MenuItem>
          <MenuItem disabled={view.folded.length === 0} onSelect={() => setSidebar({ folded: [] })}>
            <Trans>Expand all groups</Trans>
          </MenuItem>
        </Menu>
      </div>
      {filter && rows.length === 0 && (
        <p className="px-4 py-2 text-fg3">
          <Trans>No workspace matches.</Trans>
        </p>
      )}
      <List
        rows={rows}
        many={many}
        seen={seen}
        press={drag.press}
        over={drag.dragging?.over}
        dragging={drag.dragging?.id}
      />
      <Dragged
        dragging={drag.dragging}
        note={
          drag.dragging?.over === undefined
            ? undefined
            : drag.dragging.over !== "unpin"
              ? t`Pin it here`
              : pins.includes(drag.dragging.id)
                ? t`Unpin it`
                : undefined
        }
      />
    </>
  );
}

interface ListProps {
  rows: readonly Row[];
  many: boolean;
  seen: Seen | undefined;
  press: (e: PointerEvent<HTMLElement>, id: string, label: string) => void;
  dragging: string | undefined;
  over: string | undefined;
}

const keyOf = (r: Row) => `${r.kind} ${r.id}`;

function List({ rows, many, seen, press, dragging, over }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const getItemKey = useCallback((i: number) => (rows[i] ? keyOf(rows[i]) : i), [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => (rows[i]?.kind === "group" ? 30 : 48),
    getItemKey,
    overscan: 8,
  });
  // The open workspace is brought into view when it is opened, not when rows move.
  const { key } = useParams({ strict: false });
  const at = rows.findIndex((r) => r.kind === "workspace" && r.workspace.key === key);
  const brought = useRef<string>(undefined);
  useEffect(() => {
    if (at < 0 || brought.current === key) return;
    brought.current = key;
    virtual.scrollToIndex(at, { align: "auto" });
  }, [at, key, virtual]);

  const onKeyDown = (e: KeyboardEvent<HTMLElement>) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const row = e.target instanceof Element ? e.target.closest<HTMLElement>("[data-index]") : null;
    if (!by || !row || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
    if (e.target instanceof Element && e.target.closest("[aria-haspopup]")) return;
    e.preventDefault();
    focusRow(e.currentTarget, Number(row.dataset.index), by);
  };
  const none = rows[0]?.id !== PINNED;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys of the links and buttons in it
    <div ref={scroller} data-drag-scroll onKeyDown={onKeyDown} className="min-h-0 flex-1 overflow-y-auto pb-2">
      {dragging !== undefined && none && (
        <p
          data-drop={PINNED}
          className={cx(
            "mx-2 rounded-md border border-dashed border-control px-2 py-1.5 text-meta text-fg2",
            over === PINNED && "bg-bg3",
          )}
        >
          <Trans>Drop here to pin</Trans>
        </p>
      )}
      <ul className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((v) => {
          const row = rows[v.index];
          if (!row) return null;
          return (
            <li
              key={v.key}
              ref={virtual.measureElement}
              data-index={v.index}
              aria-setsize={rows.length}
              aria-posinset={v.index + 1}
              data-drop={zoneOf(row)}
              className={cx(
                "group absolute inset-x-0 top-0",
                dragging !== undefined &&
                  over === zoneOf(row) &&
                  over !== "unpin" &&
                  "shadow-[inset_0_2px_0_var(--accent)]",
                row.kind !== "group" && dragging === row.id && "opacity-50",
              )}
              style={{ transform: `translateY(${v.start}px)` }}
            >
              {row.kind === "group" ? (
                <GroupRow row={row} />
              ) : row.kind === "run" ? (
                <RunRow row={row} seen={seen} />
              ) : (
                <WorkspaceRow row={row} many={many} seen={seen} press={press} />
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** Where a dragged workspace goes when it is dropped on a row: before a pinned one, to the end of them, or out of them. */
function zoneOf(row: Row): string {
  if (row.kind === "group") return row.id === PINNED ? PINNED : "unpin";
  return row.group === PINNED ? row.id : "unpin";
}

/** Moves the focus by one row; a row that is out of view comes into it. */
function focusRow(list: HTMLElement | null, from: number | undefined, by: number): void {
  const next = list?.querySelector<HTMLElement>(
    from === undefined ? "[data-row]" : `[data-index="${from + by}"] [data-row]`,
  );
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const ROW = "-outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 data-[status=active]:bg-bg3";

function GroupRow({ row }: { row: Row & { kind: "group" } }) {
  return (
    <h2>
      <button
        type="button"
        data-row
        aria-expanded={!row.folded}
        onClick={() => setSidebar({ folded: toggled(sidebarView.get().folded, row.id) })}
        className="flex min-h-7 w-full items-center gap-1 pt-1 pr-4 pl-2.5 text-left text-meta text-fg3 -outline-offset-2 hover:text-fg"
      >
        <Icon name={row.folded ? "chevronRight" : "chevronDown"} size={10} className="shrink-0" />
        <span className="min-w-0 truncate">{row.name}</span>
        <span className="tabular-nums">{row.count}</span>
      </button>
    </h2>
  );
}

/** The attempts of one task. */
function RunRow({ row, seen }: { row: Row & { kind: "run" }; seen: Seen | undefined }) {
  const team = useTeam();
  const s = row.standing;
  const fresh = seen !== undefined && row.items.some((i) => isUnread(i.workspace, seen));
  return (
    <>
      <Link
        to="/$team/runs/$run"
        params={{ team: team.slug, run: row.runId }}
        data-row
        draggable={false}
        className={cx("flex items-baseline gap-2 py-1.5 pr-8 pl-4 in-data-[density=compact]:py-1", ROW)}
      >
        <Shape kind={s.mark} className="translate-y-px" />
        <span className="min-w-0 flex-1">
          <span className="flex items-baseline gap-1.5">
            <span className={cx("min-w-0 truncate text-fg", fresh && "font-semibold")}>{row.name}</span>
            {fresh && <Unread />}
          </span>
          <Says text={SAYS_WHY.has(s.group) ? s.text : ""} />
          <span className="block truncate text-meta text-fg3">
            {plural(row.items.length, { one: "# attempt", other: "# attempts" })}, {within(s.word)}
          </span>
        </span>
      </Link>
      <button
        type="button"
        aria-expanded={row.open}
        aria-label={t`Attempts of ${row.name}`}
        title={row.open ? t`Hide the attempts` : t`Show the attempts`}
        onClick={() => setSidebar({ open: toggled(sidebarView.get().open, row.runId) })}
        className="absolute top-1 right-1.5 grid size-6 place-items-center rounded-md text-fg2 hover:bg-bg3 hover:text-fg"
      >
        <Icon name={row.open ? "chevronDown" : "chevronRight"} size={12} />
      </button>
    </>
  );
}

/** A question in its own words, or why something failed. */
function Says({ text }: { text: string }) {
  if (!text) return null;
  return (
    <span title={text} className="line-clamp-2 text-meta break-words text-fg2">
      {text}
    </span>
  );
}

function Unread() {
  return (
    <span title={t`Something happened since you looked`} className="shrink-0 self-center">
      <span aria-hidden className="block size-1.5 rounded-full bg-accent" />
      <span className="sr-only">
        <Trans>unread</Trans>
      </span>
    </span>
  );
}

interface WorkspaceRowProps {
  row: Row & { kind: "workspace" };
  many: boolean;
  seen: Seen | undefined;
  press: ListProps["press"];
}

/** With several projects a row shows its project; with one, its key. */
function WorkspaceRow({ row, many, seen, press }: WorkspaceRowProps) {
  const team = useTeam();
  const { workspace: w, standing: s } = row;
  const fresh = seen !== undefined && isUnread(w, seen);
  const named = row.group === s.group && s.word === GROUP_NAMES[s.group];
  return (
    <>
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: w.key }}
        data-row
        draggable={false}
        onPointerDown={(e) => press(e, w.id, w.name)}
        className={cx(
          "flex items-baseline gap-2 py-1.5 pr-4 in-data-[density=compact]:py-1",
          row.inside ? "pl-8" : "pl-4",
          ROW,
        )}
        activeOptions={{ includeSearch: false }}
      >
        <Shape kind={s.mark} className="translate-y-px" />
        <span className="min-w-0 flex-1">
          <span className="flex items-baseline gap-1.5 group-hover:pr-5 group-has-focus-visible:pr-5">
            <span className={cx("min-w-0 truncate text-fg", fresh && "font-semibold")}>{w.name}</span>
            {fresh && <Unread />}
            <PrivateMark workspace={w} short />
            {onDangerous(w) && <Danger short />}
            <OverlapMark workspace={w} short />
            <PullMark workspace={w} />
          </span>
          <Says text={SAYS_WHY.has(s.group) ? s.text : ""} />
          <span className="flex gap-1.5 truncate text-meta text-fg3">
            {named ? <span className="sr-only">{s.word}</span> : <span>{s.word}</span>}
            <span className="min-w-0 truncate">{many ? w.project_name : w.key}</span>
            {w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />}
            {costOf(w) && <span className="tabular-nums">{costOf(w)}</span>}
          </span>
        </span>
      </Link>
      <RowMenu workspace={w} fresh={fresh} />
    </>
  );
}

function RowMenu({ workspace: w, fresh }: { workspace: Workspace; fresh: boolean }) {
  const team = useTeam();
  const pins = useStore(pinsOf(team.slug));
  const list = useQuery(workspacesQuery(team.slug));
  const pinned = pins.includes(w.id);
  const shown = (id: string) => list.data?.some((x) => x.id === id) ?? false;
  const there = pinned ? pins.filter(shown) : [];
  return (
    <span className="absolute top-0.5 right-1.5 opacity-0 group-hover:opacity-100 focus-within:opacity-100 has-aria-expanded:opacity-100 pointer-coarse:opacity-100">
      <Menu
        trigger={
          <button
            type="button"
            aria-label={t`More for ${w.name}`}
            title={t`More`}
            className="grid size-6 place-items-center rounded-md text-fg2 hover:bg-bg3 hover:text-fg"
          >
            <Icon name="more" size={14} />
          </button>
        }
      >
        {pinned ? (
          <MenuItem onSelect={() => unpin(team.slug, [w.id])}>
            <Trans>Unpin</Trans>
          </MenuItem>
        ) : (
          <MenuItem onSelect={() => pin(team.slug, [w.id])}>
            <Trans>Pin to the top</Trans>
          </MenuItem>
        )}
        {pinned && there[0] !== w.id && (
          <MenuItem onSelect={() => movePin(team.slug, w.id, -1, shown)}>
            <Trans>Move up</Trans>
          </MenuItem>
        )}
        {pinned && there.at(-1) !== w.id && (
          <MenuItem onSelect={() => movePin(team.slug, w.id, 1, shown)}>
            <Trans>Move down</Trans>
          </MenuItem>
        )}
        {w.attention &&
          (fresh ? (
            <MenuItem onSelect={() => markRead(team.slug, [w])}>
              <Trans>Mark as read</Trans>
            </MenuItem>
          ) : (
            <MenuItem onSelect={() => markUnread(team.slug, [w])}>
              <Trans>Mark as unread</Trans>
            </MenuItem>
          ))}
      </Menu>
    </span>
  );
}
