import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type PointerEvent, Suspense, useCallback, useMemo, useRef, useState } from "react";
import { api, type Workspace } from "@/api/client";
import { costOf } from "@/costs/workspace-cost";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { cx } from "@/kit/cx";
import { Dragged, useDrag } from "@/kit/drag";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { Menu, MenuItem } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { Counts } from "@/kit/states";
import { Danger, onDangerous } from "@/machines/danger";
import { CHECK_MARKS } from "@/merge/check-runs";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type Bulk, WORDS } from "./bulk";
import { confirmArchive } from "./bulk-bar";
import { SAYS_WHY } from "./groups";
import { activityOf, BOARD, type BoardColumn, cannotStart, columnOf, type Item, REFUSED } from "./overview";
import { pin, pinsOf, unpin } from "./pins";
import { PrivateMark } from "./private-mark";
import { isUnread, seenOf } from "./unread";

const StartAgent = lazy(() => import("./start-agent"));

/** Where a card is put away. */
const ARCHIVE = "archive";

interface Props {
  items: readonly Item[];
  bulk: Bulk;
}

/** Workspaces as cards in columns by state. A card dragged to "Working" starts its agent; its menu does the same. */
export default function Board({ items, bulk }: Props) {
  const team = useTeam();
  const client = useQueryClient();
  const [starting, setStarting] = useState<Workspace>();
  const may = team.can("terminal.type");
  const edit = team.can("workspace.edit");
  const columns = useMemo(() => {
    const by = new Map<BoardColumn, Item[]>(BOARD.map((c) => [c.id, []]));
    for (const i of items) by.get(columnOf(i.standing.group))!.push(i);
    return by;
  }, [items]);

  const start = (item: Item) => {
    const w = item.workspace;
    const why = cannotStart(item, may);
    if (why) toast({ kind: "bad", title: t`${w.name} was not started`, text: why });
    else if (w.state === "failed")
      void api
        .POST("/workspaces/{id}/retry", { params: { path: { id: w.id } } })
        .then(() => client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] }))
        .catch((error) => toastError(t`${w.name} was not set up again`, error));
    else setStarting(w);
  };
  const archive = async (w: Workspace) => {
    if (await confirmArchive([w])) await bulk.run("archive", [w]);
  };
  const refusal = (item: Item | undefined, zone: string | undefined): string => {
    if (!item || zone === undefined) return "";
    if (zone === ARCHIVE) return edit ? "" : t`You are not allowed to archive workspaces in this team.`;
    if (zone === columnOf(item.standing.group)) return t`It is here already.`;
    return zone === "working" ? cannotStart(item, may) : REFUSED[zone as keyof typeof REFUSED];
  };
  const find = (id: string | undefined) => items.find((i) => i.workspace.id === id);
  const drag = useDrag((id, zone) => {
    const item = find(id);
    const why = refusal(item, zone);
    if (!item || zone === columnOf(item.standing.group)) return;
    if (why) toast({ kind: "bad", title: t`${item.workspace.name} stays where it is`, text: why });
    else if (zone === ARCHIVE) void archive(item.workspace);
    else start(item);
  });
  const dragged = find(drag.dragging?.id);
  const over = drag.dragging?.over;
  const no = refusal(dragged, over);
  const does =
    over === ARCHIVE ? t`Archive it` : dragged?.workspace.state === "failed" ? t`Set it up again` : t`Start its agent`;

  return (
    <div className="relative min-h-[420px] flex-1">
      <div
        data-drag-scroll-x
        className="absolute inset-0 flex gap-3 overflow-x-auto overflow-y-hidden px-4 pb-4 md:px-6"
      >
        {BOARD.map((c) => (
          <Column
            key={c.id}
            id={c.id}
            name={c.name}
            items={columns.get(c.id)!}
            state={!dragged || over !== c.id ? undefined : no ? "no" : "yes"}
            bulk={bulk}
            press={drag.press}
            dragging={drag.dragging?.id}
            onStart={(item) => start(item)}
            whyNot={(item) => cannotStart(item, may)}
            onArchive={edit ? (w) => void archive(w) : undefined}
          />
        ))}
      </div>
      {dragged && edit && (
        <p
          data-drop={ARCHIVE}
          className={cx(
            "absolute inset-x-4 bottom-4 grid h-14 place-items-center rounded-md border border-dashed bg-bg1 text-fg2 shadow-float md:inset-x-6",
            over === ARCHIVE ? "border-accent" : "border-control",
          )}
        >
          <Trans>Drop here to archive</Trans>
        </p>
      )}
      <Dragged dragging={drag.dragging} note={over === undefined ? undefined : no || does} />
      <Suspense>{starting && <StartAgent workspace={starting} onClose={() => setStarting(undefined)} />}</Suspense>
    </div>
  );
}

interface ColumnProps {
  id: BoardColumn;
  name: string;
  items: readonly Item[];
  /** Whether what is dragged over it may be dropped. */
  state: "yes" | "no" | undefined;
  bulk: Bulk;
  press: (e: PointerEvent<HTMLElement>, id: string, label: string) => void;
  dragging: string | undefined;
  onStart: (item: Item) => void;
  whyNot: (item: Item) => string;
  onArchive: ((w: Workspace) => void) | undefined;
}

function Column({ id, name, items, state, bulk, press, dragging, onStart, whyNot, onArchive }: ColumnProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const getItemKey = useCallback((i: number) => items[i]?.workspace.id ?? i, [items]);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 96,
    getItemKey,
    overscan: 4,
    gap: 8,
  });
  const onKeyDown = (e: KeyboardEvent<HTMLElement>) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const card = e.target instanceof Element ? e.target.closest<HTMLElement>("[data-index]") : null;
    if (!by || !card || (e.target instanceof Element && e.target.closest("[aria-haspopup]"))) return;
    const next = e.currentTarget.querySelector<HTMLElement>(`[data-index="${Number(card.dataset.index) + by}"] a`);
    e.preventDefault();
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  return (
    <section
      aria-label={name}
      data-drop={id}
      className={cx(
        "flex min-w-44 flex-1 flex-col rounded-md @max-[720px]:min-w-[min(80cqw,300px)] bg-bg1",
        state === "yes" && "outline-2 -outline-offset-2 outline-accent",
        state === "no" && "outline-2 -outline-offset-2 outline-dashed outline-control",
      )}
    >
      <h2 className="px-3 py-2 font-medium">
        {name} <span className="font-normal text-fg3 tabular-nums">{items.length}</span>
      </h2>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys of the links in it */}
      <div ref={scroller} data-drag-scroll onKeyDown={onKeyDown} className="min-h-0 flex-1 overflow-y-auto px-2 pb-2">
        <ul className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((v) => {
            const item = items[v.index];
            return (
              item && (
                <li
                  key={v.key}
                  ref={virtual.measureElement}
                  data-index={v.index}
                  aria-setsize={items.length}
                  aria-posinset={v.index + 1}
                  className="absolute inset-x-0 top-0"
                  style={{ transform: `translateY(${v.start}px)` }}
                >
                  <Card
                    item={item}
                    bulk={bulk}
                    press={press}
                    faded={dragging === item.workspace.id}
                    why={whyNot(item)}
                    onStart={() => onStart(item)}
                    onArchive={onArchive && (() => onArchive(item.workspace))}
                  />
                </li>
              )
            );
          })}
        </ul>
      </div>
    </section>
  );
}

interface CardProps {
  item: Item;
  bulk: Bulk;
  press: ColumnProps["press"];
  faded: boolean;
  /** Why its agent cannot start. */
  why: string;
  onStart: () => void;
  onArchive: (() => void) | undefined;
}

function Card({ item, bulk, press, faded, why, onStart, onArchive }: CardProps) {
  const team = useTeam();
  const navigate = useNavigate();
  const now = useNow();
  const pins = useStore(pinsOf(team.slug));
  const seen = useStore(seenOf(team.slug));
  const { workspace: w, standing: s } = item;
  const busy = bulk.busy.get(w.id);
  const problem = bulk.problems.get(w.id);
  const checks = w.checks?.state ?? "none";
  const fresh = seen !== undefined && isUnread(w, seen);
  const pinned = pins.includes(w.id);
  const asks = SAYS_WHY.has(s.group);
  const at = activityOf(w);
  return (
    <article
      aria-label={w.name}
      onPointerDown={(e) => press(e, w.id, w.name)}
      className={cx("relative rounded-md bg-bg0 px-3 py-2 hover:bg-bg2", faded && "opacity-50")}
    >
      <p className="flex items-baseline gap-1.5 pr-5">
        <Link
          to="/$team/w/$key"
          params={{ team: team.slug, key: w.key }}
          draggable={false}
          className={cx("line-clamp-2 min-w-0 break-words hover:underline", fresh ? "font-semibold" : "font-medium")}
        >
          {w.name}
        </Link>
        {fresh && (
          <span title={t`Something happened since you looked`} className="shrink-0 self-center">
            <span aria-hidden className="block size-1.5 rounded-full bg-accent" />
            <span className="sr-only">
              <Trans>unread</Trans>
            </span>
          </span>
        )}
        <PrivateMark workspace={w} short />
        {onDangerous(w) && <Danger short />}
      </p>
      {asks && s.text && (
        <p title={s.text} className="line-clamp-3 break-words text-fg2">
          {s.text}
        </p>
      )}
      <p className="mt-0.5 flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
        {busy ? (
          <span role="status" className="text-running">
            {WORDS[busy].now}…
          </span>
        ) : (
          <Mark kind={s.mark} word={s.word} />
        )}
        {w.agents.agent_name && <span>{w.agents.agent_name}</span>}
        <span className="min-w-0 truncate">{w.project_name}</span>
      </p>
      <p className="flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
        {w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />}
        {costOf(w) && <span className="tabular-nums">{costOf(w)}</span>}
        {checks !== "none" && <Mark kind={CHECK_MARKS[checks].kind} word={CHECK_MARKS[checks].word} />}
        <OverlapMark workspace={w} short />
        <PullMark workspace={w} />
        {w.run_id && (
          <Link
            to="/$team/runs/$run"
            params={{ team: team.slug, run: w.run_id }}
            draggable={false}
            className="text-accent hover:underline"
          >
            <Trans>Attempts</Trans>
          </Link>
        )}
        <span className="ml-auto" title={exact(at)}>
          {ago(at, now)}
        </span>
      </p>
      {problem && (
        <p role="alert" className="mt-1 text-meta break-words text-failed">
          {problem}
        </p>
      )}
      <span className="absolute top-1 right-1">
        <Menu
          trigger={
            <button
              type="button"
              aria-label={t`More for ${w.name}`}
              title={t`More`}
              className="grid size-7 place-items-center rounded-md text-fg3 hover:bg-bg3 hover:text-fg pointer-coarse:size-11"
            >
              <Icon name="more" size={14} />
            </button>
          }
        >
          <MenuItem disabled={why !== ""} hint={why || undefined} onSelect={onStart}>
            {w.state === "failed" ? t`Set it up again` : t`Start its agent…`}
          </MenuItem>
          <MenuItem onSelect={() => void navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key } })}>
            <Trans>Open</Trans>
          </MenuItem>
          <MenuItem onSelect={() => (pinned ? unpin : pin)(team.slug, [w.id])}>
            {pinned ? t`Unpin` : t`Pin to the top`}
          </MenuItem>
          {onArchive && (
            <MenuItem onSelect={onArchive}>
              <Trans>Archive…</Trans>
            </MenuItem>
          )}
        </Menu>
      </span>
    </article>
  );
}
