import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { SETUP, SHELL } from "@/agents/built-in";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { changesQuery, keys, sessionsQuery } from "@/api/queries";
import { short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Busy, Failure, FormError } from "@/kit/states";
import { hasEnded, isShell } from "@/sessions/sessions";
import { startSession } from "@/sessions/start";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type CardProps, MergeCard } from "./card";
import { Conflicts } from "./conflicts";
import { OpenConflicts } from "./open-conflicts";
import { afterMove, conflictsQuery, type UpdateStrategy, updatePreviewQuery, useMergeStatus } from "./queries";

const StartWith = lazy(() => import("./start-with"));

type Result = Schemas["UpdateResult"];

/** Updates the branch from its base: preview, update, resolve conflicts. */
export default function UpdateCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const [strategy, setStrategy] = useState<UpdateStrategy>("merge");
  const standing = useMergeStatus(w);
  const changes = useQuery(changesQuery(w.id));
  const s = standing.data;
  const needed = s !== undefined && !s.merged && s.base_commit !== "" && s.head !== "" && !s.up_to_date;
  const stamp = s ? `${s.base_commit} ${s.head} ${changes.data?.version ?? 0} ${s.under_way}` : "";
  const preview = useQuery({
    ...updatePreviewQuery(w.id, strategy, stamp),
    enabled: needed && team.can("workspace.edit") && !s?.under_way,
  });
  const plan = preview.data;
  const possible = plan !== undefined && !plan.up_to_date && plan.conflicts.length === 0 && plan.dirty.length === 0;
  const update = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/update", {
          params: { path: { id: w.id } },
          body: { strategy, expected_base: plan?.base_commit },
        }),
      ),
    onSuccess: (r) => {
      if (r.updated)
        toast({
          kind: "good",
          title: t`${w.key} is up to date with ${r.base}`,
          text: t`${plural(r.commits, { one: "# commit", other: "# commits" })} added. The previous files are in the timeline.`,
        });
    },
    onError: (error) => {
      // The preview is outdated: refresh it.
      if (error instanceof ApiError && (error.code === "base_moved" || error.code === "head_moved"))
        void preview.refetch();
    },
    onSettled: () => afterMove(client, w, team.slug),
  });
  // Of a place with a disk of its own the server does not see that one is in progress, but it does see the conflicts.
  const left = (changes.data?.items ?? []).filter((c) => c.status === "conflicted").map((c) => c.path);
  // Nor an update whose conflicts are all resolved.
  const open = useQuery({ ...conflictsQuery(w.id, stamp), enabled: needed && !s?.under_way });
  const under = s?.under_way || open.data?.operation || (left.length > 0 ? "update" : "");
  if (s && under) return <UnderWay workspace={w} what={under} base={s.base} left={left} stamp={stamp} />;
  if (!s || !needed || !team.can("workspace.edit")) return null;
  return (
    <MergeCard
      title={t`Update from ${s.base}`}
      aside={
        <Segmented<UpdateStrategy>
          label={t`How`}
          value={strategy}
          onChange={setStrategy}
          options={[
            ["merge", t`Merge`],
            ["rebase", t`Rebase`],
          ]}
        />
      }
    >
      {preview.isPending && (
        <Busy>
          <Trans>Checking the update…</Trans>
        </Busy>
      )}
      {preview.error && (
        <Failure
          what={t`The update could not be checked.`}
          error={preview.error}
          retry={() => void preview.refetch()}
        />
      )}
      {plan && <Outlook workspace={w} plan={plan} strategy={strategy} />}
      <FormError error={update.error} />
      {plan && plan.conflicts.length === 0 && (
        <div>
          <Button
            look={s.merged ? "plain" : "primary"}
            disabled={!possible || preview.isFetching}
            busy={update.isPending && t`Updating`}
            onClick={() => update.mutate()}
          >
            {strategy === "rebase" ? t`Rebase onto ${s.base}` : t`Merge ${s.base} into the branch`}
          </Button>
        </div>
      )}
    </MergeCard>
  );
}

/** What an update would do. */
function Outlook({ workspace: w, plan, strategy }: { workspace: Workspace; plan: Result; strategy: UpdateStrategy }) {
  const sides = strategy === "rebase" ? { ours: plan.base, theirs: w.branch } : { ours: w.branch, theirs: plan.base };
  return (
    <div aria-live="polite" className="flex flex-col gap-2">
      {plan.conflicts.length > 0 ? (
        <>
          <Mark
            kind="failed"
            word={t`${plural(plan.conflicts.length, { one: "# file", other: "# files" })} with conflicts`}
          />
          <Conflicts conflicts={plan.conflicts} {...sides} />
          <Resolve workspace={w} strategy={strategy} />
        </>
      ) : (
        <>
          <Mark
            kind={plan.dirty.length > 0 ? "needs" : "merged"}
            word={plan.dirty.length > 0 ? t`Local changes block the update` : t`No conflicts`}
          />
          <p className="text-fg2">
            <Trans>
              {plural(plan.commits, { one: "# commit", other: "# commits" })} of {plan.base} would be added, changing{" "}
              {plural(plan.files.length + plan.more_files, { one: "# file", other: "# files" })}.{" "}
              {plan.fast_forward
                ? t`The branch fast-forwards to ${short(plan.commit)}.`
                : strategy === "rebase"
                  ? t`The branch's commits are replayed on top. If the branch was pushed before, it needs a force push.`
                  : t`A merge commit joins both.`}
            </Trans>
          </p>
        </>
      )}
      {plan.dirty.length > 0 && (
        <Paths
          title={t`These files have uncommitted changes or are untracked, and conflict with the base. Commit, move or discard them first.`}
          paths={plan.dirty}
        />
      )}
      {plan.carried.length > 0 && plan.dirty.length === 0 && (
        <Paths title={t`Uncommitted changes are kept and merged with the base's:`} paths={plan.carried} />
      )}
      {plan.warnings.map((text) => (
        <p key={text} className="flex gap-2 text-needs">
          <span aria-hidden>◆</span>
          <span>{text}</span>
        </p>
      ))}
      {w.agents.state === "working" && plan.conflicts.length === 0 && (
        <p className="text-meta text-fg3">
          <Trans>An agent is working here. Its files will change while it works.</Trans>
        </p>
      )}
    </div>
  );
}

function Paths({ title, paths }: { title: string; paths: string[] }) {
  return (
    <div>
      <p className="text-fg2">{title}</p>
      <ul
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keyboard
        tabIndex={0}
        className="mt-1 max-h-40 overflow-y-auto rounded-sm bg-bg2 px-2 py-1 font-mono text-code break-all"
      >
        {paths.map((p) => (
          <li key={p}>{visible(p)}</li>
        ))}
      </ul>
    </div>
  );
}

/** Two ways to resolve conflicts: with an agent, or manually. */
function Resolve({ workspace: w, strategy }: { workspace: Workspace; strategy: UpdateStrategy }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const sessions = useQuery(sessionsQuery(w.id));
  const agents = (sessions.data ?? []).filter((x) => !hasEnded(x) && !isShell(x) && x.agent !== SETUP);
  const [chosen, setChosen] = useState("");
  const agent = agents.find((a) => a.id === chosen) ?? agents[0];
  const [prompt, setPrompt] = useState("");
  // Open the existing shell, else a new one; if it cannot start, its tab shows why.
  const openShell = async () => {
    let shell = sessions.data?.find((x) => isShell(x) && !hasEnded(x));
    if (!shell) {
      try {
        shell = await startSession(w.id, { agent: SHELL });
        await client.invalidateQueries({ queryKey: keys.sessions(w.id) });
      } catch (error) {
        toastError(t`The shell could not be opened`, error);
      }
    }
    await navigate({ search: (x) => ({ ...x, tab: "shell", session: shell?.id }) });
  };
  const begin = useMutation({
    mutationFn: (how: "agent" | "shell") =>
      data(
        api.POST("/workspaces/{id}/update/resolve", {
          params: { path: { id: w.id } },
          body: { how, strategy, session_id: how === "agent" ? (agent?.id ?? null) : null },
        }),
      ),
    onSuccess: (r, how) => {
      afterMove(client, w, team.slug);
      if (how === "shell") {
        void openShell();
      } else if (r.session_id) {
        toast({
          kind: "good",
          title: t`${agent?.agent_name ?? t`The agent`} was asked to resolve ${plural(r.files.length, { one: "# file", other: "# files" })}`,
        });
        void navigate({ search: (x) => ({ ...x, tab: undefined, session: r.session_id ?? undefined }) });
      } else setPrompt(r.prompt);
    },
    onError: (error) => toastError(t`The conflicts could not be handed to the agent`, error),
  });
  return (
    <div className="flex flex-wrap items-center gap-2">
      {agents.length > 1 && (
        <label className="flex items-center gap-2">
          <span className="text-fg2">
            <Trans>Agent</Trans>
          </span>
          <select
            value={agent?.id ?? ""}
            onChange={(e) => setChosen(e.target.value)}
            className="control-h rounded-md border border-control bg-bg1 px-2"
          >
            {agents.map((a) => (
              <option key={a.id} value={a.id}>
                {a.agent_name}, {a.state}
              </option>
            ))}
          </select>
        </label>
      )}
      <Button
        look="primary"
        busy={begin.isPending && begin.variables === "agent" && t`Asking`}
        onClick={() => begin.mutate("agent")}
      >
        <Trans>Ask agent to resolve</Trans>
      </Button>
      <Button busy={begin.isPending && begin.variables === "shell" && t`Opening`} onClick={() => begin.mutate("shell")}>
        <Trans>Open a shell</Trans>
      </Button>
      {prompt && (
        <Suspense>
          <StartWith workspace={w} prompt={prompt} onClose={() => setPrompt("")} />
        </Suspense>
      )}
    </div>
  );
}

/** A merge or rebase that stopped at conflicts in the worktree: what is left to resolve, and the ways out of it. */
function UnderWay({
  workspace: w,
  what,
  base,
  left,
  stamp,
}: {
  workspace: Workspace;
  /** merge, rebase, cherry-pick, revert; "update" where the server cannot tell. */
  what: string;
  base: string;
  left: string[];
  stamp: string;
}) {
  const team = useTeam();
  const client = useQueryClient();
  // The others are git's own words.
  const name = what === "update" ? t`update` : what;
  const act = useMutation({
    mutationFn: (how: "finish" | "abort") =>
      data(api.POST("/workspaces/{id}/update/resolve", { params: { path: { id: w.id } }, body: { how } })),
    onSuccess: (r, how) =>
      how === "abort"
        ? toast({ kind: "good", title: t`The ${name} was aborted`, text: t`Branch and files are restored.` })
        : r.files.length > 0
          ? toast({
              title: t`The ${name} stopped at another conflict`,
              text: t`${plural(r.files.length, { one: "# file", other: "# files" })} with conflicts.`,
            })
          : toast({ kind: "good", title: t`The ${name} is finished`, text: t`${w.key} is up to date with ${base}.` }),
    onSettled: () => afterMove(client, w, team.slug),
    onError: (error, how) =>
      toastError(how === "abort" ? t`The ${name} was not aborted` : t`The ${name} is not finished`, error),
  });
  const giveUp = async () => {
    const yes = await confirm({
      title: t`Abort the ${name}?`,
      body: t`Branch and files return to their previous state. What was resolved so far stays in the timeline.`,
      action: t`Abort`,
      danger: true,
    });
    if (yes) act.mutate("abort");
  };
  const known = what !== "cherry-pick" && what !== "revert";
  return (
    <MergeCard
      title={t`Update from ${base}`}
      aside={
        <Mark kind="running" word={what === "update" ? t`An update is in progress` : t`A ${what} is in progress`} />
      }
    >
      <p className="text-fg2">
        {left.length > 0
          ? t`It stopped with conflicts in ${plural(left.length, { one: "# file", other: "# files" })}. In text files, resolve the lines between <<<<<<< and >>>>>>>. For other files, choose a version. Then finish it. Until then nothing is merged or pushed.`
          : t`All conflicts are resolved. Finish to bring the branch up to date.`}
      </p>
      {known && <OpenConflicts workspace={w} stamp={stamp} />}
      {known && team.can("workspace.edit") && (
        <>
          {left.length > 0 && <Resolve workspace={w} strategy={what === "rebase" ? "rebase" : "merge"} />}
          <div className="flex flex-wrap items-center gap-2">
            <Button
              look={left.length > 0 ? "plain" : "primary"}
              busy={act.isPending && act.variables === "finish" && t`Finishing`}
              onClick={() => act.mutate("finish")}
            >
              <Trans>Finish the {name}</Trans>
            </Button>
            <Button
              look="danger"
              busy={act.isPending && act.variables === "abort" && t`Aborting`}
              onClick={() => void giveUp()}
            >
              <Trans>Abort the {name}…</Trans>
            </Button>
          </div>
        </>
      )}
    </MergeCard>
  );
}
