import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Session } from "@/api/client";
import { useNow } from "@/format/now";
import QuestionSlot from "@/inbox/question-slot";
import { Empty, Skeleton } from "@/kit/states";
import { EndedBar } from "@/sessions/ended-bar";
import QueuePeek from "@/sessions/queue-peek";
import { hasEnded } from "@/sessions/sessions";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { ConversationList } from "../list";
import { Composer } from "./composer";
import { type Conversation, type Message, ThreadFeed } from "./feed";
import { ThreadId } from "./media";
import { useFork, useUndo } from "./prompt-acts";
import { ThreadRow } from "./row";
import { heightOf, opensByItself, type Row, rowsOf, unfolds } from "./rows";
import { SessionId } from "./subagent-lines";

const idOf = (row: Row): string => row.id;

/** The conversation of a session of Parawork's own agent: what is said and done as it comes, questions, and the field to write in. */
export default function ThreadView({ session: s }: { session: Session }) {
  const team = useTeam();
  const [feed] = useState(() => new ThreadFeed(s.id));
  useEffect(() => feed.start(), [feed]);
  const conversation = useStore(feed.shown);
  const { messages, calls, writing, older, link } = conversation;
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
  const rows = useMemo(() => rowsOf({ messages, calls, writing }, toggled), [messages, calls, writing, toggled]);
  const [replaced, setReplaced] = useState<Message>();
  const fork = useFork(s, conversation.thread).mutate;
  const undo = useUndo(conversation.thread).mutate;
  const acts = useMemo(() => ({ edit: setReplaced, fork, undo }), [fork, undo]);
  const calm = conversation.thread?.state === "idle" || conversation.thread?.state === "failed";
  const loadOlder = useCallback(() => feed.loadOlder(), [feed]);
  const ended = hasEnded(s);
  const may = team.can("terminal.type");
  return (
    <ThreadId value={conversation.thread?.id ?? ""}>
      <SessionId value={s.id}>
        <div className="flex h-full min-h-0 min-w-0 flex-col">
          {link === "loading" ? (
            <div className="min-h-0 flex-1">
              <Skeleton label={t`Loading the conversation`} />
            </div>
          ) : (
            <ConversationList
              rows={rows}
              idOf={idOf}
              estimate={heightOf}
              render={(row, current) => (
                <ThreadRow
                  row={row}
                  now={now}
                  open={opensByItself(row) !== toggled.has(row.id)}
                  current={current}
                  onToggle={toggle}
                  acts={may && !ended && calm ? acts : undefined}
                />
              )}
              onFold={(row) => unfolds(row) && toggle(row.id)}
              older={older}
              loadOlder={loadOlder}
              atEnd
              empty={<Nothing session={s} link={link} />}
            />
          )}
          <Announcer conversation={conversation} agent={s.agent_name} />
          <QuestionSlot
            session={s}
            via="workspace"
            className="relative max-h-[50vh] overflow-y-auto border-t border-hairline bg-bg2 px-4 py-2.5 md:px-6"
          />
          <QueuePeek session={s} />
          {ended && <EndedBar session={s} exit={undefined} />}
          {(!ended || s.can_resume) && (
            <Composer
              key={`${s.id} ${replaced?.id}`}
              session={s}
              conversation={conversation}
              may={may}
              replaced={replaced}
              onReplaced={() => setReplaced(undefined)}
            />
          )}
        </div>
      </SessionId>
    </ThreadId>
  );
}

function Nothing({ session: s, link }: { session: Session; link: Conversation["link"] }) {
  if (hasEnded(s))
    return (
      <Empty title={t`Nothing was said`}>
        <Trans>The session ended before its first prompt.</Trans>
      </Empty>
    );
  if (link === "missing")
    return (
      <Empty title={t`Starting`}>
        <Trans>The conversation appears here.</Trans>
      </Empty>
    );
  if (link === "reconnecting")
    return (
      <Empty title={t`Connecting`}>
        <Trans>The server cannot be reached yet.</Trans>
      </Empty>
    );
  return (
    <Empty title={t`Nothing said yet`}>
      <Trans>Write below what {s.agent_name} should do.</Trans>
    </Empty>
  );
}

/** Reads each new answer to people who listen to the page: once, when it is complete. */
function Announcer({ conversation: { messages }, agent }: { conversation: Conversation; agent: string }) {
  const last = useRef<number | undefined>(undefined);
  const [words, setWords] = useState("");
  useEffect(() => {
    const newest = messages.at(-1);
    if (!newest) return;
    const before = last.current;
    const answers = messages.filter((m) => m.role === "assistant" && m.state === "complete");
    last.current = answers.at(-1)?.seq ?? newest.seq - 1;
    if (before === undefined) return; // what was there already
    const said = answers
      .filter((m) => m.seq > before)
      .flatMap((m) => m.parts.filter((p) => p.kind === "text").map((p) => p.text ?? ""))
      .join("\n")
      .trim();
    if (said) setWords(`${agent}: ${said.slice(0, 500)}`);
  }, [messages, agent]);
  return (
    <p role="log" aria-live="polite" className="sr-only">
      {words}
    </p>
  );
}
