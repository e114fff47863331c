import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Session, Workspace } from "@/api/client";
import { type SearchWish, workspaceStorageQuery } from "@/api/history";
import { sessionsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { clock, duration, exact } from "@/format/time";
import { byBareKey } from "@/keys/keyboard";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { useGone } from "@/kit/link";
import { Shape } from "@/kit/mark";
import { useRoom } from "@/kit/room";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { hasEnded, sessionMark } from "@/sessions/sessions";
import { ExportMenu } from "./export-menu";
import { Player } from "./player";
import { Results } from "./results";
import { capsInWords } from "./storage";

/** Debounce of the search. */
const TYPED_MS = 350;

/** Everything the workspace's sessions printed: to search, to play, to save. */
export default function HistoryTab({ workspace: w }: { workspace: Workspace }) {
  const search = useSearch({ from: "/$team/w/$key" });
  const sessions = useQuery(sessionsQuery(w.id));
  const phone = useRoom() < 768;
  const all = [...(sessions.data ?? [])].sort((a, b) => b.started_at - a.started_at);
  const shown =
    all.find((s) => s.id === search.session) ?? (search.when === undefined ? undefined : running(all, search.when));
  useGone(
    sessions.data && search.session && search.tab === "history" && !shown
      ? t`The linked recording is not there any more`
      : undefined,
    t`Its session was deleted.`,
  );
  if (sessions.isPending) return <Skeleton rows={5} label={t`Loading the sessions`} />;
  if (sessions.isError && !sessions.data)
    return (
      <Failure
        className="m-4"
        what={t`The sessions could not be loaded.`}
        error={sessions.error}
        retry={() => void sessions.refetch()}
      />
    );
  if (all.length === 0)
    return (
      <Empty title={t`No output yet`}>
        <Trans>The output of agents and shells appears here, to search and replay.</Trans>
      </Empty>
    );
  return (
    <div className="flex h-full min-h-0">
      {!(phone && shown) && <Finder workspace={w} sessions={all} shown={shown} />}
      {shown ? (
        <div className="flex min-w-0 flex-1 flex-col">
          <div className="flex min-h-9 items-center gap-3 border-b border-hairline bg-bg1 px-3 py-1">
            {phone && (
              <Link
                to="."
                search={(s) => ({ ...s, session: undefined, at: undefined, when: undefined })}
                aria-label={t`Back to the list`}
              >
                <Icon name="arrowLeft" />
              </Link>
            )}
            <h2 className="min-w-0 flex-1 truncate font-medium">
              {shown.agent_name}
              {shown.title && shown.title !== shown.agent_name && <span className="text-fg3"> {shown.title}</span>}
            </h2>
            <Link
              to="."
              search={(s) => ({
                ...s,
                tab: undefined,
                session: shown.id,
                at: undefined,
                when: undefined,
                q: undefined,
              })}
              className="text-meta text-accent hover:underline @max-3xl:hidden"
            >
              {hasEnded(shown) ? t`Last screen` : t`Live terminal`}
            </Link>
            <ExportMenu session={shown} />
          </div>
          <div className="min-h-0 flex-1">
            <Player key={shown.id} session={shown} offset={search.at} moment={search.when} />
          </div>
        </div>
      ) : (
        !phone && (
          <Empty title={t`Choose a session to play`}>
            <Trans>Or search and select a result.</Trans>
          </Empty>
        )
      )}
    </div>
  );
}

/** The session that ran at a time; of several the one that began last. */
function running(all: readonly Session[], at: number): Session | undefined {
  return all.find((s) => s.started_at <= at && at <= (s.ended_at ?? Number.POSITIVE_INFINITY));
}

interface FinderProps {
  workspace: Workspace;
  sessions: Session[];
  shown: Session | undefined;
}

function Finder({ workspace: w, sessions, shown }: FinderProps) {
  const search = useSearch({ from: "/$team/w/$key" });
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [text, setText] = useState(search.q ?? "");
  const [regex, setRegex] = useState(false);
  const [caseSensitive, setCase] = useState(false);
  const q = search.q ?? "";
  useEffect(() => {
    if (text.trim() === q) return;
    const timer = setTimeout(
      () => void navigate({ search: (s) => ({ ...s, q: text.trim() || undefined }), replace: true }),
      TYPED_MS,
    );
    return () => clearTimeout(timer);
  }, [text, q, navigate]);
  const [agent, setAgent] = useState("");
  const agents = new Map(sessions.map((s) => [s.agent, s.agent_name]));
  const wish: SearchWish = { q, regex, caseSensitive, agent };
  return (
    <div className="flex w-96 shrink-0 flex-col border-r border-hairline bg-bg1 @max-5xl:w-72 @max-3xl:w-full @max-3xl:border-r-0">
      <search className="flex flex-wrap items-center gap-1 border-b border-hairline p-2">
        <input
          type="search"
          aria-label={t`Search the output of all sessions`}
          placeholder={t`Search all output`}
          value={text}
          maxLength={1000}
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: a user who arrives with a search continues typing it
          autoFocus={search.tab === "history" && search.session === undefined && !byBareKey()}
          onChange={(e) => setText(e.target.value)}
          className={cx(inputClass, "flex-1")}
        />
        <IconButton label={t`Match case`} aria-pressed={caseSensitive} onClick={() => setCase((v) => !v)}>
          <span aria-hidden className="text-micro">
            <Trans>Aa</Trans>
          </span>
        </IconButton>
        <IconButton label={t`Regular expression`} aria-pressed={regex} onClick={() => setRegex((v) => !v)}>
          <span aria-hidden className="font-mono text-micro">
            .*
          </span>
        </IconButton>
        {q && agents.size > 1 && (
          <select
            aria-label={t`Filter by agent`}
            value={agent}
            onChange={(e) => setAgent(e.target.value)}
            className={cx(inputClass, "basis-full")}
          >
            <option value="">
              <Trans>All agents</Trans>
            </option>
            {[...agents].map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        )}
      </search>
      <div className="min-h-0 flex-1 overflow-y-auto">
        {q ? (
          <Results workspaceId={w.id} wish={wish} shown={`${search.session} ${search.at}`} />
        ) : (
          <>
            <SessionList sessions={sessions} shown={shown} />
            <StorageLine workspace={w} />
          </>
        )}
      </div>
    </div>
  );
}

function SessionList({ sessions, shown }: { sessions: Session[]; shown: Session | undefined }) {
  const now = useNow();
  return (
    <ol aria-label={t`Sessions`} className="divide-y divide-hairline border-b border-hairline">
      {sessions.map((s) => {
        const mark = sessionMark(s);
        return (
          <li key={s.id}>
            <Link
              to="."
              search={(x) => ({ ...x, session: s.id, at: undefined, when: undefined })}
              aria-current={s.id === shown?.id ? "true" : undefined}
              className="block px-3 py-2 -outline-offset-2 hover:bg-bg2 aria-[current=true]:bg-bg3"
            >
              <span className="flex items-baseline gap-2">
                <Shape kind={mark.mark} />
                <span className="min-w-0 flex-1 truncate">
                  {s.agent_name}
                  {s.prompt && <span className="text-fg3"> {s.prompt}</span>}
                </span>
                <span className="sr-only">{mark.word}</span>
              </span>
              <span className="flex justify-between gap-3 pl-6 text-meta text-fg3">
                <time dateTime={new Date(s.started_at).toISOString()} title={exact(s.started_at)}>
                  {clock(s.started_at, now)}, {duration((s.ended_at ?? now) - s.started_at)}
                </time>
                <span className="shrink-0 tabular-nums">{bytes(s.bytes)}</span>
              </span>
            </Link>
          </li>
        );
      })}
    </ol>
  );
}

/** The disk usage of the listed sessions, and the limits. */
function StorageLine({ workspace: w }: { workspace: Workspace }) {
  const storage = useQuery(workspaceStorageQuery(w.id));
  if (!storage.data) return null;
  return (
    <p className="px-3 py-2 text-meta text-fg3">
      <Trans>
        {bytes(storage.data.bytes)} on disk for {bytes(storage.data.printed)} of output.{" "}
        {capsInWords(storage.data.caps)}
      </Trans>
    </p>
  );
}
