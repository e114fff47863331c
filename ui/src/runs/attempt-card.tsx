import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { costOf } from "@/costs/workspace-cost";
import { visible } from "@/format/text";
import { duration, exact } from "@/format/time";
import { Prose } from "@/highlight/prose";
import { Button, buttonClass } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Counts } from "@/kit/states";
import { CHECK_MARKS } from "@/merge/check-runs";
import { SessionTokens } from "@/sessions/session-tokens";
import { useTeam } from "@/state/team";
import { type Attempt, attemptMark, modelOf, took } from "./runs";

const QuestionSlot = lazy(() => import("@/inbox/question-slot"));

/** The last thing an agent said, from its own record. Events about its conversation make it stale. */
const lastAnswerQuery = (session: string) => ({
  queryKey: [...keys.conversation(session), "last answer"],
  queryFn: async () => {
    const query = { kinds: "text", limit: 1 };
    const found = await data(api.GET("/sessions/{id}/conversation", { params: { path: { id: session }, query } }));
    return { text: found.items.at(-1)?.text ?? "", model: found.usage.model };
  },
});

interface Props {
  attempt: Attempt;
  now: number;
  kept: boolean;
  /** Takes it; absent where that makes no sense. */
  onTake: (() => void) | undefined;
  taking: boolean;
  busy: boolean;
}

/** One attempt: how it stands, what it cost and changed, what the agent says and asks. */
export function AttemptCard({ attempt: a, now, kept, onTake, taking, busy }: Props) {
  const team = useTeam();
  const s = attemptMark(a);
  const w = a.workspace;
  const time = took(a.session, now);
  const last = useQuery({ ...lastAnswerQuery(a.session?.id ?? ""), enabled: a.session !== null });
  const model = modelOf(a.argv) || last.data?.model || "";
  const checks = w?.checks?.state ?? "none";
  const open = w && w.state !== "archived" && !w.deleted_at;
  return (
    <article
      aria-label={w ? `${a.agent_name} ${w.key}` : a.agent_name}
      className="panel flex min-w-0 flex-col gap-2 p-3"
    >
      <header>
        <h2 className="flex flex-wrap items-baseline gap-x-2">
          <span className="text-title font-semibold">{a.agent_name}</span>
          <span className="font-mono text-micro text-fg3">{w?.key ?? a.name}</span>
          {kept && (
            <span className="ml-auto text-merged">
              <Trans>Taken</Trans>
            </span>
          )}
        </h2>
        {(model || a.argv.length > 0) && (
          <p className="font-mono text-code break-words text-fg3">{visible(model || a.argv.join(" "))}</p>
        )}
        <p className="mt-1">
          <Mark kind={s.mark} word={s.word} />
          {s.why && !a.session?.question && <span className="ml-2 break-words text-fg2">{s.why}</span>}
        </p>
      </header>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-0.5">
        <Fact name={t`Changes`}>
          {w && w.changes.files > 0 ? (
            <Link
              to="/$team/w/$key"
              params={{ team: team.slug, key: w.key }}
              search={{ tab: "changes" }}
              className="hover:underline"
            >
              {plural(w.changes.files, { one: "# file", other: "# files" })}{" "}
              <Counts additions={w.changes.additions} deletions={w.changes.deletions} />
            </Link>
          ) : (
            <span className="text-fg3">
              <Trans>none yet</Trans>
            </span>
          )}
        </Fact>
        <Fact name={t`Checks`}>
          <Mark kind={CHECK_MARKS[checks].kind} word={CHECK_MARKS[checks].word} />
        </Fact>
        <Fact name={t`Time`}>
          <span className="tabular-nums" title={a.session ? exact(a.session.started_at) : undefined}>
            {time === undefined ? "" : duration(time)}
          </span>
        </Fact>
        {w && costOf(w) && (
          <Fact name={t`Cost`}>
            <span className="tabular-nums">{costOf(w)}</span>
          </Fact>
        )}
        {a.tokens && (
          <Fact name={t`Models`}>
            <SessionTokens tokens={a.tokens} />
          </Fact>
        )}
      </dl>
      {a.session && <Asks session={a.session} />}
      {last.data?.text && (
        <section aria-label={t`Last answer of ${a.agent_name}`}>
          <h3 className="text-meta text-fg3">
            <Trans>Last answer</Trans>
          </h3>
          <div
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
            tabIndex={0}
            className="max-h-48 overflow-y-auto"
          >
            <Prose text={last.data.text} />
          </div>
        </section>
      )}
      <p className="mt-auto flex flex-wrap gap-2 pt-1">
        {onTake && (
          <Button busy={taking && t`Taking`} disabled={busy} onClick={onTake}>
            <Trans>Take this one</Trans>
          </Button>
        )}
        {kept && open && (
          <Link
            to="/$team/w/$key"
            params={{ team: team.slug, key: w.key }}
            search={{ tab: "merge" }}
            className={buttonClass(onTake ? "plain" : "primary")}
          >
            <Trans>Checks & merge</Trans>
          </Link>
        )}
        {w && (
          <Link
            to="/$team/w/$key"
            params={{ team: team.slug, key: w.key }}
            aria-label={t`Open ${w.key}`}
            className={buttonClass("plain")}
          >
            <Trans>Open</Trans>
          </Link>
        )}
      </p>
    </article>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-fg3">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  );
}

/** The question the agent waits with, to be answered here. */
function Asks({ session }: { session: Session }) {
  if (!session.question) return null;
  return (
    <Suspense>
      <QuestionSlot session={session} via="inbox" className="rounded-md bg-bg2 p-2.5" />
    </Suspense>
  );
}
