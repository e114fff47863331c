import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { toastError } from "@/state/toasts";

interface Props<R> {
  rows: readonly R[];
  idOf: (row: R) => string;
  /** Pixels, until the row is measured. */
  estimate: (row: R) => number;
  render: (row: R, current: boolean) => ReactNode;
  /** Unfolds or folds a row. */
  onFold: (row: R) => void;
  /** There are older rows than the first. */
  older: boolean;
  loadOlder: () => Promise<void>;
  /** The list opens at its end. False: it opens where `target` says. */
  atEnd: boolean;
  /** The ID of a row to go to. */
  target?: string | undefined;
  head?: ReactNode;
  /** Instead of rows. */
  empty: ReactNode;
}

/** So near the end counts as at the end. */
const NEAR = 40;

/** A conversation of which only what is seen is in the page. It follows the end until the user scrolls up. */
export function ConversationList<R>({
  rows,
  idOf,
  estimate,
  render,
  onFold,
  older,
  loadOlder,
  atEnd,
  target,
  head,
  empty,
}: Props<R>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<string>();
  const [following, setFollowing] = useState(atEnd);
  // The same function as long as the rows are the same: with another one, the places of all rows are worked out anew at each step of scrolling.
  const keyOf = useCallback((i: number) => (rows[i] ? idOf(rows[i]) : i), [rows, idOf]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => (rows[i] ? estimate(rows[i]) : 32),
    getItemKey: keyOf,
    overscan: 12,
  });
  const seen = virtual.getVirtualItems();

  // Follow the end, also while rows grow or are measured: before anything of it is painted.
  const total = virtual.getTotalSize();
  const top = useRef(0); // where the list was scrolled to last
  useLayoutEffect(() => {
    void total;
    void rows;
    const el = scroller.current;
    if (following && el) el.scrollTop = el.scrollHeight;
  }, [following, total, rows]);

  // Older rows are put before the first: what is read stays where it is.
  const anchor = useRef<{ id: string; delta: number } | undefined>(undefined);
  const load = useCallback(() => {
    const el = scroller.current;
    const first = virtual.getVirtualItems().find((v) => el && v.end > el.scrollTop);
    if (el && first) anchor.current = { id: String(first.key), delta: el.scrollTop - first.start };
    loadOlder().catch((error: unknown) => toastError(t`Older steps could not be loaded`, error, load));
  }, [loadOlder, virtual]);
  const firstId = rows[0] && idOf(rows[0]);
  useLayoutEffect(() => {
    void firstId;
    const kept = anchor.current;
    if (!kept || !scroller.current) return;
    anchor.current = undefined;
    const i = rows.findIndex((r) => idOf(r) === kept.id);
    const start = virtual.measurementsCache[i]?.start;
    if (i > 0 && start !== undefined) scroller.current.scrollTop = start + kept.delta;
  }, [firstId, rows, virtual, idOf]);
  const uppermost = seen[0]?.index ?? 0;
  useEffect(() => {
    if (older && !following && rows.length > 0 && uppermost < 5) load();
  }, [older, following, rows.length, uppermost, load]);

  useEffect(() => {
    if (target === undefined) return;
    setFollowing(false);
    setCursor(target);
  }, [target]);
  const placed = useRef<string | undefined>(undefined);
  const cursorAt = cursor === undefined ? -1 : rows.findIndex((r) => idOf(r) === cursor);
  useEffect(() => {
    if (cursorAt < 0 || placed.current === cursor) return;
    placed.current = cursor;
    virtual.scrollToIndex(cursorAt, { align: "auto" });
  }, [cursor, cursorAt, virtual]);

  const step = (by: 1 | -1) => {
    if (rows.length === 0) return;
    const inView = seen.some((v) => v.index === cursorAt);
    const from = inView ? cursorAt : by > 0 ? (seen[0]?.index ?? 0) - 1 : (seen.at(-1)?.index ?? rows.length);
    const next = Math.max(0, Math.min(rows.length - 1, from + by));
    if (by < 0) setFollowing(false);
    setCursor(idOf(rows[next]!));
  };
  useAction("conversation.next", () => step(1));
  useAction("conversation.previous", () => step(-1));
  useAction("conversation.fold", () => {
    const row = rows[cursorAt];
    if (row !== undefined) onFold(row);
  });
  const toEnd = () => {
    setCursor(undefined);
    setFollowing(true);
  };
  useAction("conversation.end", toEnd);

  return (
    <div className="relative min-h-0 min-w-0 flex-1">
      <div
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={t`Conversation`}
        className="h-full overflow-x-hidden overflow-y-auto py-2 -outline-offset-2 [overflow-anchor:none]"
        onScroll={(e) => {
          const el = e.currentTarget;
          const near = el.scrollHeight - el.scrollTop - el.clientHeight < NEAR;
          // Growing does not scroll up: only the user does.
          const up = el.scrollTop < top.current;
          top.current = el.scrollTop;
          if (near !== following && (near ? rows.length > 0 : up)) setFollowing(near);
        }}
      >
        {head}
        {rows.length === 0 ? (
          empty
        ) : (
          <div role="list" className="relative w-full" style={{ height: total }}>
            {seen.map((v) => {
              const row = rows[v.index]!;
              const current = idOf(row) === cursor;
              return (
                <div
                  key={v.key}
                  ref={virtual.measureElement}
                  data-index={v.index}
                  role="listitem"
                  aria-setsize={older ? -1 : rows.length}
                  aria-posinset={v.index + 1}
                  aria-current={current ? "true" : undefined}
                  className="absolute top-0 left-0 w-full"
                  style={{ transform: `translateY(${v.start}px)` }}
                >
                  {render(row, current)}
                </div>
              );
            })}
          </div>
        )}
      </div>
      {!following && rows.length > 0 && (
        <Button onClick={toEnd} className="absolute! right-4 bottom-2 bg-bg1! shadow-float">
          <Icon name="down" size={14} />
          <Trans>Jump to latest</Trans>
        </Button>
      )}
    </div>
  );
}
