import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Session } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { plural } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { hasEnded } from "@/sessions/sessions";
import { useStore } from "@/state/store";
import { toastError } from "@/state/toasts";
import { ConversationFeed, type Kind } from "./feed";
import { ItemRow } from "./item";
import { LiveMessage } from "./live-message";
import { rowsOf, unfolds } from "./rows";
import { spent } from "./words";

interface Props {
  session: Session;
  words: string;
  kinds: readonly Kind[];
  /** The place to begin at. */
  at: number | undefined;
  onSession: (id: string) => void;
}

/** So near the end counts as at the end. */
const NEAR = 40;

/** One conversation as a virtual list. It follows the end until the user scrolls up. */
export function Timeline({ session, words, kinds, at, onSession }: Props) {
  const [feed] = useState(() => new ConversationFeed(session.id, { q: words, kinds }));
  const { items, older, about } = useStore(feed.shown);
  const sync = useQuery({
    queryKey: [...keys.conversation(session.id), words, kinds],
    queryFn: ({ signal }) => feed.sync(signal),
    staleTime: 0,
    gcTime: 0,
  });
  const now = useNow();
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback(
    (id: string) =>
      setToggled((old) => {
        const next = new Set(old);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [],
  );
  const rows = useMemo(() => rowsOf(items, toggled), [items, toggled]);
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<string>();
  const [following, setFollowing] = useState(at === undefined);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => (rows[i]?.item.kind === "text" || rows[i]?.item.kind === "prompt" ? 80 : 32),
    getItemKey: (i) => rows[i]?.item.id ?? i,
    overscan: 12,
  });
  const seen = virtual.getVirtualItems();

  // Follow the end, also while rows are measured.
  const total = virtual.getTotalSize();
  useLayoutEffect(() => {
    void total;
    const el = scroller.current;
    if (following && el) el.scrollTop = el.scrollHeight;
  }, [following, total]);

  const grow = useCallback(() => {
    const el = scroller.current;
    if (following && el) el.scrollTop = el.scrollHeight;
  }, [following]);

  // Older rows are put before the first: what is read stays where it is.
  const anchor = useRef<{ id: string; delta: number } | undefined>(undefined);
  const loadOlder = useCallback(() => {
    const el = scroller.current;
    const first = virtual.getVirtualItems().find((v) => el && v.end > el.scrollTop);
    if (el && first) anchor.current = { id: String(first.key), delta: el.scrollTop - first.start };
    feed.loadOlder().catch((error: unknown) => toastError("Older steps could not be loaded", error, loadOlder));
  }, [feed, virtual]);
  const firstId = rows[0]?.item.id;
  useLayoutEffect(() => {
    void firstId;
    const kept = anchor.current;
    if (!kept || !scroller.current) return;
    anchor.current = undefined;
    const i = rows.findIndex((r) => r.item.id === kept.id);
    const start = virtual.measurementsCache[i]?.start;
    if (i > 0 && start !== undefined) scroller.current.scrollTop = start + kept.delta;
  }, [firstId, rows, virtual]);
  const top = seen[0]?.index ?? 0;
  useEffect(() => {
    if (older && !following && rows.length > 0 && top < 5) loadOlder();
  }, [older, following, rows.length, top, loadOlder]);

  // An address that names a place opens there.
  const opened = useRef<number | undefined>(undefined);
  useEffect(() => {
    if (at === undefined || opened.current === at || sync.data === undefined) return;
    opened.current = at;
    setFollowing(false);
    void feed.reach(at).then(() => {
      const list = feed.shown.get().items;
      const item = list.find((i) => i.place >= at) ?? list.at(-1);
      if (item)
        setCursor(item.parent && !rowsOf(list, toggled).some((r) => r.item.id === item.id) ? item.parent : item.id);
    });
  }, [at, feed, sync.data, toggled]);
  const placed = useRef<string | undefined>(undefined);
  const cursorAt = cursor === undefined ? -1 : rows.findIndex((r) => r.item.id === cursor);
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
    setCursor(rows[next]!.item.id);
  };
  useAction("conversation.next", () => step(1));
  useAction("conversation.previous", () => step(-1));
  useAction("conversation.fold", () => {
    const row = rows[cursorAt];
    if (row && unfolds(row.item, row.steps)) toggle(row.item.id);
  });
  const toEnd = () => {
    setCursor(undefined);
    setFollowing(true);
  };
  useAction("conversation.end", toEnd);

  if (sync.isError && sync.data === undefined)
    return (
      <Failure
        className="m-4"
        what="The conversation could not be loaded."
        error={sync.error}
        retry={() => void sync.refetch()}
      />
    );
  if (sync.data === undefined) return <Skeleton label="Loading the conversation" />;
  return (
    <div className="relative flex h-full min-h-0 min-w-0 flex-col">
      <div
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label="Conversation"
        className="min-h-0 flex-1 overflow-x-hidden overflow-y-auto py-2 -outline-offset-2 [overflow-anchor:none]"
        onScroll={(e) => {
          const el = e.currentTarget;
          const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < NEAR;
          if (atEnd !== following && (!atEnd || rows.length > 0)) setFollowing(atEnd);
        }}
      >
        {!older && about?.earlier_session_id && words === "" && (
          <p className="px-4 pb-2 text-meta text-fg3 md:px-6">
            Continues an earlier session.{" "}
            <button
              type="button"
              onClick={() => onSession(about.earlier_session_id!)}
              className="min-h-6 text-accent hover:underline"
            >
              Show that session
            </button>
          </p>
        )}
        {rows.length === 0 ? (
          <Nothing
            session={session}
            record={about?.record}
            filtered={words !== "" || kinds.length > 0}
            total={about?.total ?? 0}
          />
        ) : (
          <div role="list" className="relative w-full" style={{ height: virtual.getTotalSize() }}>
            {seen.map((v) => {
              const row = rows[v.index]!;
              return (
                <div
                  key={v.key}
                  ref={virtual.measureElement}
                  data-index={v.index}
                  role="listitem"
                  aria-setsize={older ? -1 : rows.length}
                  aria-posinset={v.index + 1}
                  aria-current={row.item.id === cursor ? "true" : undefined}
                  className="absolute top-0 left-0 w-full"
                  style={{ transform: `translateY(${v.start}px)` }}
                >
                  <ItemRow
                    row={row}
                    session={session.id}
                    now={now}
                    current={row.item.id === cursor}
                    onToggle={toggle}
                  />
                </div>
              );
            })}
          </div>
        )}
        {session.agent === "parawork" && !hasEnded(session) && words === "" && kinds.length === 0 && (
          <LiveMessage session={session.id} items={items} onGrow={grow} />
        )}
      </div>
      {!following && rows.length > 0 && (
        <Button onClick={toEnd} className="absolute! right-4 bottom-10 bg-bg1! shadow-float">
          <Icon name="down" size={14} />
          Jump to latest
        </Button>
      )}
      {about && about.total > 0 && (
        <p
          role="status"
          aria-live="off"
          className="flex flex-wrap gap-x-3 border-t border-hairline bg-bg1 px-4 py-1 text-meta text-fg3 tabular-nums md:px-6"
        >
          <span>{plural(about.total, "step")}</span>
          {about.usage.input + about.usage.output > 0 && <span>{spent(about.usage)}</span>}
          {about.usage.model && <span>{about.usage.model}</span>}
          {about.later_session_id && (
            <button
              type="button"
              onClick={() => onSession(about.later_session_id!)}
              className="text-accent hover:underline"
            >
              Continues in a later session
            </button>
          )}
        </p>
      )}
    </div>
  );
}

interface NothingProps {
  session: Session;
  record: "kept" | "waiting" | "none" | undefined;
  filtered: boolean;
  total: number;
}

/** Why there is nothing to show, and what to do. */
function Nothing({ session: s, record, filtered, total }: NothingProps) {
  if (filtered && total > 0) return <Empty title="Nothing found">Try other words or “Everything”.</Empty>;
  if ((record === "waiting" || s.agent === "parawork") && !hasEnded(s))
    return <Empty title="Nothing said yet">What {s.agent_name} does appears here after its first prompt.</Empty>;
  if (record === "waiting" || s.agent === "claude-code" || s.agent === "codex")
    return <Empty title="No conversation was recorded">The terminal shows everything this session printed.</Empty>;
  return <Empty title="This agent does not record conversations">The terminal shows everything.</Empty>;
}
