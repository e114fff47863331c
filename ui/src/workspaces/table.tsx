import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  type RefObject,
  useCallback,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import type { Workspace } from "@/api/client";
import { costOf } from "@/costs/workspace-cost";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { cx } from "@/kit/cx";
import { Faces } from "@/kit/faces";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { Counts } from "@/kit/states";
import { Danger, onDangerous } from "@/machines/danger";
import { CHECK_MARKS } from "@/merge/check-runs";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import { useStore } from "@/state/store";
import { useMe, useTeam } from "@/state/team";
import { type Bulk, WORDS } from "./bulk";
import { COLUMN_NAMES } from "./column-names";
import { SAYS_WHY } from "./groups";
import { activityOf, between, type Item, nextSort } from "./overview";
import { PrivateMark } from "./private-mark";
import { type Column, sortOf } from "./search";
import { isUnread, type Seen, seenOf } from "./unread";

/** Where there is room for a column: below that width of the page it is left out. */
const FROM: Record<Column, string> = {
  name: "",
  state: "@max-[560px]:hidden",
  changes: "@max-[660px]:hidden",
  activity: "@max-[740px]:hidden",
  agent: "@max-[840px]:hidden",
  cost: "@max-[840px]:hidden",
  checks: "@max-[940px]:hidden",
  project: "@max-[1040px]:hidden",
  owner: "@max-[1140px]:hidden",
  where: "@max-[1280px]:hidden",
  branch: "@max-[1440px]:hidden",
};
const SHOWN = [
  "name",
  "state",
  "project",
  "agent",
  "where",
  "branch",
  "changes",
  "cost",
  "checks",
  "owner",
  "activity",
] as const;
const FIGURES: ReadonlySet<Column> = new Set(["changes", "cost", "activity"]);

interface Props {
  /** What scrolls: the page. */
  scroller: RefObject<HTMLDivElement | null>;
  items: readonly Item[];
  chosen: ReadonlySet<string>;
  onChosen: (ids: ReadonlySet<string>) => void;
  bulk: Bulk;
  placeName: (w: Workspace) => string;
}

/** Workspaces as rows of which only those in view are in the page. */
export function WorkspaceTable({ items, scroller, chosen, onChosen, bulk, placeName }: Props) {
  const team = useTeam();
  const seen = useStore(seenOf(team.slug));
  const now = useNow();
  const table = useRef<HTMLTableElement>(null);
  // How far below the top of the page the table begins: what stands above it changes its height.
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setTop(table.current?.offsetTop ?? 0);
    measure();
    const above = new ResizeObserver(measure);
    const frame = table.current?.parentElement?.previousElementSibling;
    if (frame) above.observe(frame);
    return () => above.disconnect();
  }, []);
  const anchor = useRef<string>(undefined);
  const getItemKey = useCallback((i: number) => items[i]?.workspace.id ?? i, [items]);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 48,
    getItemKey,
    overscan: 8,
    scrollPaddingStart: 34,
    scrollMargin: top,
  });
  const rows = virtual.getVirtualItems();
  const before = rows[0] ? rows[0].start - top : 0;
  const after = virtual.getTotalSize() - ((rows.at(-1)?.end ?? top) - top);
  const order = () => items.map((i) => i.workspace.id);
  const all = items.length > 0 && items.every((i) => chosen.has(i.workspace.id));

  const choose = (id: string, range: boolean) => {
    const next = new Set(chosen);
    const on = !chosen.has(id);
    for (const each of range ? between(order(), anchor.current, id) : [id]) {
      if (on) next.add(each);
      else next.delete(each);
    }
    anchor.current = id;
    onChosen(next);
  };

  const onKeyDown = (e: KeyboardEvent<HTMLElement>) => {
    const row = e.target instanceof Element ? e.target.closest<HTMLElement>("tr[data-index]") : null;
    if (!row) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (by) {
      const to = Number(row.dataset.index) + by;
      const item = items[to];
      if (!item) return;
      if (e.shiftKey) {
        const here = items[to - by]!.workspace.id;
        onChosen(new Set([...chosen, here, item.workspace.id]));
        anchor.current = item.workspace.id;
      }
      const kind = e.target instanceof HTMLInputElement ? "input" : "a";
      const next = e.currentTarget.querySelector<HTMLElement>(`tr[data-index="${to}"] ${kind}`);
      next?.focus({ preventScroll: true });
      virtual.scrollToIndex(to, { align: "auto" });
    } else if (e.key === "a" && (e.ctrlKey || e.metaKey)) onChosen(new Set(order()));
    else if (e.key === "Escape" && chosen.size > 0) onChosen(new Set());
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys of the links and boxes in it
    <div onKeyDown={onKeyDown} className="grow px-2 pb-4 md:px-4">
      <table
        ref={table}
        className="w-full border-separate border-spacing-0"
        aria-label={t`Workspaces`}
        aria-rowcount={items.length + 1}
      >
        <thead>
          <tr>
            <th className={cx(TH, "w-8 pr-0")}>
              <input
                type="checkbox"
                aria-label={t`Select all`}
                checked={all}
                ref={(box) => {
                  if (box) box.indeterminate = chosen.size > 0 && !all;
                }}
                onChange={() => onChosen(all ? new Set() : new Set(order()))}
              />
            </th>
            {SHOWN.map((c) => (
              <Head key={c} column={c} />
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {rows.map((v) => {
            const item = items[v.index];
            if (!item) return null;
            const w = item.workspace;
            return (
              <tr
                key={v.key}
                ref={virtual.measureElement}
                data-index={v.index}
                aria-rowindex={v.index + 2}
                aria-selected={chosen.has(w.id)}
                className="group hover:bg-bg2 aria-selected:bg-bg3"
              >
                <td className={cx(TD, "pr-0")}>
                  <label className="-mx-2 -my-1.5 grid min-h-8 min-w-8 place-items-center pointer-coarse:min-h-11 pointer-coarse:min-w-11">
                    <input
                      type="checkbox"
                      aria-label={t`Select ${w.name}`}
                      checked={chosen.has(w.id)}
                      readOnly
                      onClick={(e: MouseEvent) => choose(w.id, e.shiftKey)}
                    />
                  </label>
                </td>
                <NameCell item={item} seen={seen} problem={bulk.problems.get(w.id)} />
                {SHOWN.slice(1).map((c) => (
                  <td
                    key={c}
                    className={cx(TD, FROM[c], FIGURES.has(c) && "text-right whitespace-nowrap tabular-nums")}
                  >
                    {c === "state" && bulk.busy.has(w.id) ? (
                      <span role="status" className="text-running">
                        {WORDS[bulk.busy.get(w.id)!].now}…
                      </span>
                    ) : (
                      cell(c, item, placeName, now)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
    </div>
  );
}

const TH =
  "sticky top-0 z-10 border-b border-hairline bg-bg0 px-2 py-1.5 text-left text-meta font-normal whitespace-nowrap text-fg3";
const TD = "border-b border-hairline px-2 py-1.5 align-top";

function Head({ column }: { column: Column }) {
  const search = useSearch({ from: "/$team/w" });
  const navigate = useNavigate({ from: "/$team/w" });
  const sort = sortOf(search.sort);
  const mine = sort?.by === column;
  return (
    <th
      aria-sort={mine ? (sort.down ? "descending" : "ascending") : undefined}
      className={cx(TH, FROM[column], FIGURES.has(column) && "text-right")}
    >
      <button
        type="button"
        className={cx("inline-flex items-center gap-1 hover:text-fg", mine && "text-fg")}
        onClick={() => void navigate({ search: (s) => ({ ...s, sort: nextSort(s.sort, column) }), replace: true })}
      >
        {COLUMN_NAMES[column]}
        <Icon name={mine && !sort.down ? "up" : "down"} size={10} className={mine ? undefined : "opacity-0"} />
      </button>
    </th>
  );
}

function NameCell({ item, seen, problem }: { item: Item; seen: Seen | undefined; problem: string | undefined }) {
  const team = useTeam();
  const me = useMe();
  const { workspace: w, standing: s } = item;
  const fresh = seen !== undefined && isUnread(w, seen);
  const says = s.text && SAYS_WHY.has(s.group);
  return (
    <th scope="row" className={cx(TD, "w-[38%] max-w-0 text-left font-normal @max-[560px]:w-full")}>
      <span className="flex min-w-0 items-baseline gap-2">
        <Link
          to="/$team/w/$key"
          params={{ team: team.slug, key: w.key }}
          className={cx("truncate text-fg hover:underline", fresh ? "font-semibold" : "font-medium")}
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
        <span className="font-mono text-micro whitespace-nowrap text-fg3 @max-[560px]:hidden">{w.key}</span>
        <PrivateMark workspace={w} short />
        {onDangerous(w) && <Danger />}
        <OverlapMark workspace={w} short />
        <PullMark workspace={w} />
        <Faces
          label={t`Watching`}
          people={w.agents.watchers
            .filter((p) => p.user_id !== me.user.id)
            .map((p) => ({ userId: p.user_id, name: p.name, note: p.holds ? t`has exclusive control` : undefined }))}
        />
      </span>
      <span className="hidden items-baseline gap-2 text-meta @max-[560px]:flex">
        <Mark kind={s.mark} word={s.word} />
        <span className="min-w-0 truncate text-fg3">{w.project_name}</span>
        {w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />}
      </span>
      {problem ? (
        <span role="alert" className="block text-meta break-words text-failed">
          {problem}
        </span>
      ) : (
        says && (
          <span title={s.text} className="line-clamp-2 text-meta break-words text-fg2">
            {s.text}
          </span>
        )
      )}
    </th>
  );
}

function cell(
  c: Column,
  { workspace: w, standing: s }: Item,
  placeName: (w: Workspace) => string,
  now: number,
): ReactNode {
  switch (c) {
    case "name":
      return null;
    case "state":
      return <Mark kind={s.mark} word={s.word} />;
    case "project":
      return <Short text={w.project_name} />;
    case "agent":
      return <Short text={w.agents.agent_name ?? ""} />;
    case "where":
      return <Short text={placeName(w)} />;
    case "branch":
      return <Short text={w.branch} mono />;
    case "changes":
      return w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />;
    case "cost":
      return costOf(w);
    case "checks": {
      const state = w.checks?.state ?? "none";
      return state !== "none" && <Mark kind={CHECK_MARKS[state].kind} word={CHECK_MARKS[state].word} />;
    }
    case "owner":
      return <Short text={w.owner.name} />;
    case "activity": {
      const at = activityOf(w);
      return (
        <span className="text-fg3" title={exact(at)}>
          {ago(at, now)}
        </span>
      );
    }
  }
}

function Short({ text, mono }: { text: string; mono?: boolean }) {
  return (
    <span title={text} className={cx("block max-w-36 truncate text-fg2", mono && "font-mono text-code")}>
      {text}
    </span>
  );
}
