import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Session } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { hasEnded } from "@/sessions/sessions";
import { useStore } from "@/state/store";
import { toast } from "@/state/toasts";
import { ConversationFeed, type Kind } from "./feed";
import { ItemRow } from "./item";
import { ConversationList } from "./list";
import { type Row, rowsOf, unfolds } from "./rows";
import { spent } from "./words";

interface Props {
  session: Session;
  words: string;
  kinds: readonly Kind[];
  /** The place to begin at. */
  at: number | undefined;
  onSession: (id: string) => void;
}

const idOf = (row: Row): string => row.item.id;
const estimate = ({ item }: Row): number => (item.kind === "text" || item.kind === "prompt" ? 80 : 32);

/** One conversation from the agent's own record. */
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
  const whole = words !== "" || kinds.length > 0 || at !== undefined; // what is looked for may have been undone
  const rows = useMemo(() => rowsOf(items, toggled, whole), [items, toggled, whole]);
  const loadOlder = useCallback(() => feed.loadOlder(), [feed]);
  const [target, setTarget] = useState<string>();

  // An address that names a place opens there.
  const opened = useRef<number | undefined>(undefined);
  useEffect(() => {
    if (at === undefined || opened.current === at || sync.data === undefined) return;
    opened.current = at;
    void feed.reach(at).then(() => {
      const list = feed.shown.get().items;
      const item = list.find((i) => i.place >= at) ?? list.at(-1);
      if (item?.place !== at)
        toast({ title: t`The linked message is gone`, text: t`The conversation opens where it was, or at its end.` });
      if (item)
        setTarget(
          item.parent && !rowsOf(list, toggled, true).some((r) => r.item.id === item.id) ? item.parent : item.id,
        );
    });
  }, [at, feed, sync.data, toggled]);

  if (sync.isError && sync.data === undefined)
    return (
      <Failure
        className="m-4"
        what={t`The conversation could not be loaded.`}
        error={sync.error}
        retry={() => void sync.refetch()}
      />
    );
  if (sync.data === undefined) return <Skeleton label={t`Loading the conversation`} />;
  return (
    <div className="relative flex h-full min-h-0 min-w-0 flex-col">
      <ConversationList
        rows={rows}
        idOf={idOf}
        estimate={estimate}
        render={(row, current) => (
          <ItemRow row={row} session={session.id} now={now} current={current} onToggle={toggle} />
        )}
        onFold={(row) => unfolds(row.item, row.steps) && toggle(row.item.id)}
        older={older !== undefined}
        loadOlder={loadOlder}
        atEnd={at === undefined}
        target={target}
        head={
          !older &&
          about?.earlier_session_id &&
          words === "" && (
            <p className="px-4 pb-2 text-meta text-fg3 md:px-6">
              <Trans>Continues an earlier session.</Trans>{" "}
              <button
                type="button"
                onClick={() => onSession(about.earlier_session_id!)}
                className="min-h-6 text-accent hover:underline"
              >
                <Trans>Show that session</Trans>
              </button>
            </p>
          )
        }
        empty={
          <Nothing
            session={session}
            record={about?.record}
            filtered={words !== "" || kinds.length > 0}
            total={about?.total ?? 0}
          />
        }
      />
      {about && about.total > 0 && (
        <p
          role="status"
          aria-live="off"
          className="flex flex-wrap gap-x-3 border-t border-hairline bg-bg1 px-4 py-1 text-meta text-fg3 tabular-nums md:px-6"
        >
          <span>{plural(about.total, { one: "# step", other: "# steps" })}</span>
          {about.usage.input + about.usage.output > 0 && <span>{spent(about.usage)}</span>}
          {about.usage.model && <span>{about.usage.model}</span>}
          {about.later_session_id && (
            <button
              type="button"
              onClick={() => onSession(about.later_session_id!)}
              className="text-accent hover:underline"
            >
              <Trans>Continues in a later session</Trans>
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
  if (filtered && total > 0)
    return (
      <Empty title={t`Nothing found`}>
        <Trans>Try other words or “Everything”.</Trans>
      </Empty>
    );
  if ((record === "waiting" || s.agent === "parawork") && !hasEnded(s))
    return (
      <Empty title={t`Nothing said yet`}>
        <Trans>What {s.agent_name} does appears here after its first prompt.</Trans>
      </Empty>
    );
  if (record === "waiting" || s.agent === "claude-code" || s.agent === "codex")
    return (
      <Empty title={t`No conversation was recorded`}>
        <Trans>The terminal shows everything this session printed.</Trans>
      </Empty>
    );
  return (
    <Empty title={t`This agent does not record conversations`}>
      <Trans>The terminal shows everything.</Trans>
    </Empty>
  );
}
