import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { AgentSelect, startableAgents } from "@/agents/agent-select";
import { COMMAND, SETUP, SHELL } from "@/agents/built-in";
import { api, data, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";
import { agentsQuery, sessionsQuery } from "@/api/queries";
import { nano, usd } from "@/format/money";
import { useNow } from "@/format/now";
import { short, visible } from "@/format/text";
import { ago, clock } from "@/format/time";
import { Button } from "@/kit/button";
import { Segmented, TextField } from "@/kit/field";
import { Mark, type MarkKind } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { isString, recall } from "@/state/remember";
import { useTeam } from "@/state/team";
import { type CardProps, MergeCard } from "./card";

type Tending = Schemas["Tending"];
type Round = Schemas["TendingRound"];
type Merge = Tending["merge"];

const STATES: Record<Tending["state"], { kind: MarkKind; word: string }> = {
  watching: { kind: "idle", word: t`Watching` },
  working: { kind: "running", word: t`A round goes on` },
  needs_you: { kind: "needs", word: t`Needs you` },
  ended: { kind: "done", word: t`Ended` },
};

/** What it waits for or needs, by its code. The server's own sentence stands beside it where it says more. */
const CODES: Record<string, string> = {
  waiting_checks: t`Its checks run or are about to begin.`,
  waiting_comments: t`A reviewer still writes: all comments become one round.`,
  waiting_conflict: t`It conflicts with its base. The Git host is asked once more.`,
  waiting_agent: t`An agent works in the workspace. The round waits for the end of its turn.`,
  waiting_review: t`It waits for reviewers.`,
  waiting_merge: t`It waits to be merged.`,
  waiting_host: t`It waits for the Git host.`,
  waiting_workspace: t`The workspace cannot be worked in now. Wake or restore it.`,
  round: t`The agent works on what is left to do.`,
  agent_asks: t`The agent asks a question.`,
  same_failure: t`A check fails in the same way after two rounds.`,
  nothing_changed: t`The agent committed nothing about what is wrong.`,
  rounds_spent: t`The limit of rounds is reached.`,
  money_spent: t`The limit of money is reached.`,
  agent_failed: t`The agent could not do the round.`,
  push_refused: t`What the agent did could not be pushed.`,
  conflicts_left: t`Conflicts are left.`,
  not_allowed: t`The Git host or the team does not allow it.`,
  closed: t`Somebody closed it without merging it.`,
  merged: t`It was merged.`,
};

const STEPS: Record<Round["step"], { kind: MarkKind; word: string }> = {
  asking: { kind: "running", word: t`Asking the agent` },
  working: { kind: "running", word: t`The agent works` },
  pushing: { kind: "running", word: t`Pushing` },
  answering: { kind: "running", word: t`Answering` },
  over: { kind: "done", word: t`Done` },
  dropped: { kind: "stopped", word: t`Left off` },
};

const METHODS: [Merge, string][] = [
  ["", t`Never`],
  ["merge", t`Merge`],
  ["squash", t`Squash`],
  ["rebase", t`Rebase`],
];

const key = (id: string) => ["workspace", id, "tending"] as const;

/** Has a pull request tended until it is merged, and shows what was done for it. */
export default function TendingCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const open = w.pull_request?.state === "open" || w.pull_request?.state === "draft";
  const tending = useQuery({
    queryKey: key(w.id),
    enabled: Boolean(w.pull_request),
    queryFn: async () => {
      try {
        return await data(api.GET("/workspaces/{id}/pull-request/tending", { params: { path: { id: w.id } } }));
      } catch (error) {
        if (error instanceof ApiError && error.code === "tending_off") return null;
        throw error;
      }
    },
  });
  const end = useMutation({
    mutationFn: () => api.DELETE("/workspaces/{id}/pull-request/tending", { params: { path: { id: w.id } } }),
    onSettled: () => void client.invalidateQueries({ queryKey: key(w.id) }),
  });
  const [editing, setEditing] = useState(false);
  const d = tending.data;
  const may = team.can("workspace.edit") && open;
  if (!w.pull_request || (!d && !may && !tending.isError)) return null;
  return (
    <MergeCard
      title={t`Tend until merged`}
      aside={d && <Mark kind={d.code === "merged" ? "merged" : STATES[d.state].kind} word={STATES[d.state].word} />}
    >
      {tending.isPending && <Skeleton rows={2} label={t`Loading`} />}
      {tending.isError && (
        <Failure
          what={t`What is done for the pull request could not be read.`}
          error={tending.error}
          retry={() => void tending.refetch()}
        />
      )}
      {d && <Status d={d} />}
      {tending.isSuccess &&
        may &&
        (!d || editing || d.state === "ended" ? (
          <Form workspace={w} forge={w.pull_request.forge} now={d ?? undefined} done={() => setEditing(false)} />
        ) : (
          <div className="flex flex-wrap gap-2">
            <Button look={d.state === "needs_you" ? "primary" : undefined} onClick={() => setEditing(true)}>
              {d.state === "needs_you" ? t`Continue…` : t`Change…`}
            </Button>
            <Button busy={end.isPending && t`Stopping`} onClick={() => end.mutate()}>
              <Trans>Stop</Trans>
            </Button>
          </div>
        ))}
      <FormError error={end.error} />
      {d && <Others d={d} />}
      {d && d.history.length > 0 && <History rounds={d.history} />}
    </MergeCard>
  );
}

function Status({ d }: { d: Tending }) {
  const now = useNow();
  const known = CODES[d.code];
  return (
    <div className="flex flex-col gap-1">
      <p className="break-words">{known ?? visible(d.because)}</p>
      {known && d.because && d.code !== "round" && d.code !== "merged" && (
        <p className="text-meta break-words text-fg3">{visible(d.because)}</p>
      )}
      <p className="text-meta text-fg3">
        <Trans>
          {d.rounds} of {d.max_rounds} rounds, {usd(d.spent_nano)} spent. Since {clock(d.since, now)}, in the name of{" "}
          {d.created_by_name}.
        </Trans>
      </p>
    </div>
  );
}

interface FormProps {
  workspace: CardProps["workspace"];
  forge: string;
  now?: Tending;
  done: () => void;
}

function Form({ workspace: w, forge, now, done }: FormProps) {
  const id = w.id;
  const team = useTeam();
  const agents = useQuery(agentsQuery(team.slug));
  const sessions = useQuery(sessionsQuery(id));
  const [picked, setPicked] = useState(now?.agent ?? "");
  const usable = startableAgents(agents.data);
  const last = recall(`agent.${w.project_id}`, isString);
  const agent = picked || (usable.find((a) => a.agent === last) ?? usable[0])?.agent || "";
  // The agent that is there goes on; only where none is, one is started.
  const alone = sessions.isSuccess && sessions.data.every((s) => [SHELL, SETUP, COMMAND].includes(s.agent));
  const client = useQueryClient();
  const [rounds, setRounds] = useState(String(now?.max_rounds ?? 5));
  const [money, setMoney] = useState(now?.max_nano ? String(now.max_nano / 1e9) : "");
  const [merge, setMerge] = useState<Merge>(now?.merge ?? "");
  const most = Number(rounds);
  const limit = nano(money);
  const wrongRounds = !Number.isInteger(most) || most < 1 || most > 50;
  const set = useMutation({
    mutationFn: () =>
      data(
        api.PUT("/workspaces/{id}/pull-request/tending", {
          params: { path: { id } },
          body: { max_rounds: most, max_nano: limit ?? 0, merge, agent },
        }),
      ),
    onSuccess: (next) => {
      client.setQueryData(key(id), next);
      done();
    },
  });
  return (
    <form
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!wrongRounds && limit !== undefined) set.mutate();
      }}
    >
      {!now && (
        <p className="text-fg2">
          <Trans>
            Failed checks and comments of reviewers with write access are given to the workspace's agent. Parawork
            pushes what it commits, answers the comments, and asks you when it is stuck.
          </Trans>
        </p>
      )}
      <div className="flex flex-wrap gap-3">
        <TextField
          label={t`Rounds at most`}
          inputMode="numeric"
          fieldClass="w-36"
          value={rounds}
          onChange={(e) => setRounds(e.target.value)}
          error={wrongRounds ? t`1 to 50` : undefined}
        />
        <TextField
          label={t`Dollars at most`}
          inputMode="decimal"
          fieldClass="w-36"
          placeholder={t`no limit`}
          value={money}
          onChange={(e) => setMoney(e.target.value)}
          error={limit === undefined ? t`This is no amount.` : undefined}
        />
      </div>
      {alone && usable.length > 0 && (
        <AgentSelect
          agents={usable}
          value={agent}
          onChange={setPicked}
          hint={t`It is started when there is something to do: the workspace has no session of an agent.`}
        />
      )}
      {team.can("workspace.merge") && (
        <div className="flex flex-col gap-1">
          <p aria-hidden className="font-medium">
            <Trans>Merge when the rules allow</Trans>
          </p>
          <div>
            <Segmented<Merge>
              label={t`Merge when the rules allow`}
              value={merge}
              onChange={setMerge}
              options={METHODS.filter(([m]) => m !== "rebase" || forge !== "gitlab")}
            />
          </div>
        </div>
      )}
      <FormError error={set.error} />
      <div className="flex flex-wrap gap-2">
        <Button
          type="submit"
          look="primary"
          disabled={wrongRounds || limit === undefined}
          busy={set.isPending && (now ? t`Saving` : t`Switching on`)}
        >
          {!now ? t`Tend until merged` : now.state === "watching" || now.state === "working" ? t`Save` : t`Continue`}
        </Button>
        {now && now.state !== "ended" && (
          <Button onClick={done}>
            <Trans>Cancel</Trans>
          </Button>
        )}
      </div>
    </form>
  );
}

/** Comments that go into no prompt. */
function Others({ d }: { d: Tending }) {
  if (d.others.length === 0) return null;
  return (
    <details>
      <summary className="text-meta text-fg2">
        {plural(d.others.length, {
          one: "# comment of somebody without write access, not given to the agent",
          other: "# comments of people without write access, not given to the agent",
        })}
      </summary>
      <Comments list={d.others} />
    </details>
  );
}

function Comments({ list }: { list: Schemas["TendingComment"][] }) {
  return (
    <ul className="divide-y divide-hairline">
      {list.map((c, i) => (
        <li key={`${c.url} ${i}`} className="py-1">
          <p className="text-meta text-fg3">
            {c.url ? (
              <a href={c.url} target="_blank" rel="noreferrer noopener" className="text-accent underline">
                {visible(c.author)}
              </a>
            ) : (
              visible(c.author)
            )}
            {c.path && (
              <span className="ml-2 font-mono break-all">{visible(c.line ? `${c.path}:${c.line}` : c.path)}</span>
            )}
          </p>
          <p className="line-clamp-4 break-words whitespace-pre-wrap">{visible(c.text)}</p>
          {c.answer && (
            <p className="break-words text-fg2">
              <span aria-hidden>↳ </span>
              {visible(c.answer)}
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function History({ rounds }: { rounds: Round[] }) {
  const now = useNow();
  return (
    <ul aria-label={t`Rounds`} className="divide-y divide-hairline border-y border-hairline">
      {rounds.map((r) => (
        <li key={r.id} className="py-1">
          <details>
            <summary>
              <span className="inline-flex flex-wrap items-baseline gap-x-3">
                <Mark
                  kind={r.code ? "failed" : STEPS[r.step].kind}
                  word={r.code ? (CODES[r.code] ?? visible(r.error)) : STEPS[r.step].word}
                />
                <span>
                  <Trans>Round {r.number}</Trans>
                </span>
                <span className="text-meta text-fg3">
                  {ago(r.started_at, now)} · {usd(r.cost_nano)}
                </span>
                {r.pushed && (
                  <span className="text-meta text-fg3">
                    <Trans>pushed {short(r.pushed)}</Trans>
                  </span>
                )}
              </span>
            </summary>
            <div className="flex flex-col gap-2 py-1 pl-4">
              {r.error && <p className="break-words text-fg2">{visible(r.error)}</p>}
              {r.conflict && (
                <p>
                  <Trans>It conflicted with its base.</Trans>
                </p>
              )}
              {r.checks.length > 0 && (
                <p className="break-words">
                  <Trans>Failed checks: {r.checks.map((c) => visible(c.name)).join(", ")}</Trans>
                </p>
              )}
              {r.comments.length > 0 && <Comments list={r.comments} />}
              {r.answer && (
                <p className="max-h-60 overflow-auto break-words whitespace-pre-wrap text-fg2">{visible(r.answer)}</p>
              )}
            </div>
          </details>
        </li>
      ))}
    </ul>
  );
}
