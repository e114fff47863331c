import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { SETUP } from "@/agents/built-in";
import { OWN } from "@/agents/own";
import type { Session, Workspace } from "@/api/client";
import { sessionsQuery } from "@/api/queries";
import { available, perform } from "@/keys/keyboard";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { useRoom } from "@/kit/room";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { hasEnded, isShell, preferred } from "@/sessions/sessions";
import { useAgentPane } from "@/sessions/shown-session";
import { LinkOpener } from "@/state/links";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { openLink } from "@/terminal/open-link";
import type { Kind } from "./feed";
import { Found } from "./found";
import { SearchField } from "./search-field";
import { Timeline } from "./timeline";

const ThreadView = lazy(() => import("./thread/view"));
const QuestionSlot = lazy(() => import("@/inbox/question-slot"));
const MessageBox = lazy(() => import("@/sessions/message-box"));
const SaveConversation = lazy(() => import("@/history/export-menu"));
const SaveSkill = lazy(() => import("@/tools/save-skill"));

/** Filters. */
const FILTERS: { label: string; kinds: readonly Kind[] }[] = [
  { label: t`Everything`, kinds: [] },
  { label: t`Said`, kinds: ["prompt", "text", "question", "answer"] },
  { label: t`Edits`, kinds: ["edit"] },
  { label: t`Tools`, kinds: ["tool", "edit"] },
  { label: t`Problems`, kinds: ["error", "note"] },
  { label: t`Tokens`, kinds: ["usage"] },
];

/** The conversations of a workspace's agents, by session, from the agents' own records. */
export default function ConversationTab({ workspace: w }: { workspace: Workspace }) {
  const search = useSearch({ from: "/$team/w/$key" });
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const all = useQuery(sessionsQuery(w.id));
  const [words, setWords] = useState("");
  const [everywhere, setEverywhere] = useState(false);
  const [filter, setFilter] = useState(0);
  const pane = useAgentPane();
  const team = useTeam();
  const may = team.can("terminal.type") && !w.deleted_at && w.state !== "archived";
  const [saving, setSaving] = useState(false);
  // In a narrow pane the conversation needs the room: what searches it is asked for.
  const narrow = useRoom() < 460;
  const [seeking, setSeeking] = useState(false);

  if (all.isPending) return <Skeleton label={t`Loading the sessions`} />;
  if (all.isError && !all.data)
    return (
      <Failure
        className="m-4"
        what={t`The sessions could not be loaded.`}
        error={all.error}
        retry={() => void all.refetch()}
      />
    );
  const sessions = (all.data ?? [])
    .filter((s) => !isShell(s) && s.agent !== SETUP)
    .sort((a, b) => b.started_at - a.started_at);
  const shown = sessions.find((s) => s.id === pane.session) ?? preferred(sessions);
  if (!shown)
    return (
      <Empty title={t`No agent has worked here yet`}>
        <Trans>Start a session. The conversation appears here.</Trans>
      </Empty>
    );
  const open = (session: string, at?: number) => {
    setEverywhere(false);
    setWords("");
    void navigate({ search: (s) => ({ ...s, tab: "conversation", session, place: at }) });
  };
  // What is searched, filtered or pointed at stands in the record.
  const own = shown.agent === OWN;
  const whole = own && words.trim() === "" && filter === 0 && search.place === undefined;
  return (
    <LinkOpener value={openLink}>
      <div className="flex h-full min-h-0 flex-col">
        <div className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg1 px-3 py-1.5">
          {narrow && (
            <IconButton label={t`Search and filter`} aria-expanded={seeking} onClick={() => setSeeking(!seeking)}>
              <Icon name="search" />
            </IconButton>
          )}
          {(!narrow || seeking || words !== "") && (
            <>
              <SearchField
                value={words}
                onChange={setWords}
                everywhere={everywhere}
                onEverywhere={sessions.length > 1 ? setEverywhere : undefined}
              />
              <select
                aria-label={t`What is shown`}
                value={filter}
                onChange={(e) => setFilter(Number(e.target.value))}
                className={cx(inputClass, "w-auto!")}
              >
                {FILTERS.map((f, i) => (
                  <option key={f.label} value={i}>
                    {f.label}
                  </option>
                ))}
              </select>
            </>
          )}
          {own && search.place !== undefined && (
            <Button onClick={() => open(shown.id)}>
              <Trans>Back to the conversation</Trans>
            </Button>
          )}
          {team.can("workspace.edit") && (
            <MoreMenu session={shown} own={own && !hasEnded(shown) && may} onSave={() => setSaving(true)} />
          )}
        </div>
        {everywhere && words.trim() !== "" ? (
          <Found workspaceId={w.id} words={words.trim()} onOpen={open} />
        ) : (
          <div className="min-h-0 flex-1">
            {whole ? (
              <Suspense fallback={<Skeleton label={t`Loading the conversation`} />}>
                <ThreadView key={shown.id} session={shown} />
              </Suspense>
            ) : (
              <Timeline
                key={`${shown.id} ${filter} ${words}`}
                session={shown}
                words={words.trim()}
                kinds={FILTERS[filter]!.kinds}
                at={search.place}
                onSession={open}
              />
            )}
          </div>
        )}
        {!own && !w.deleted_at && w.state !== "archived" && (
          <Suspense fallback={<div className="h-11 shrink-0 pointer-coarse:h-15" />}>
            <QuestionSlot
              session={shown}
              via="workspace"
              className="relative max-h-[50vh] overflow-y-auto border-t border-hairline bg-bg2 px-4 py-2.5"
            />
            <MessageBox session={shown} ended={hasEnded(shown)} may={may} />
          </Suspense>
        )}
        {saving && (
          <Suspense>
            <SaveSkill team={team.slug} workspace={w} session={shown} mayAsk={may} onClose={() => setSaving(false)} />
          </Suspense>
        )}
      </div>
    </LinkOpener>
  );
}

/** What can be done with a conversation as a whole; with one of Parawork's own agent more, while the agent does not work. */
function MoreMenu({ session, own, onSave }: { session: Session; own: boolean; onSave: () => void }) {
  const can = useStore(available);
  const item = (id: "conversation.compact" | "conversation.clear", label: string, hint: string) => (
    <MenuItem
      disabled={!can.some((a) => a.id === id)}
      onSelect={() => setTimeout(() => perform(id), 0)} // once the menu has given the focus back
      hint={hint}
    >
      {label}
    </MenuItem>
  );
  return (
    <Menu
      trigger={
        <IconButton label={t`More for this conversation`}>
          <Icon name="more" />
        </IconButton>
      }
    >
      {own && item("conversation.compact", t`Compact`, t`The agent summarizes it, and reads the summary instead.`)}
      {own && item("conversation.clear", t`Clear`, t`The agent forgets what is above. You can still read it.`)}
      <MenuItem
        onSelect={() => setTimeout(onSave, 0)} // once the menu has given the focus back
        hint={t`Keep the procedure, for agents to use again.`}
      >
        <Trans>Save as a skill</Trans>
      </MenuItem>
      <Suspense>
        <SaveConversation session={session} />
      </Suspense>
    </Menu>
  );
}
