import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { useNow } from "@/format/now";
import { short, visible } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Choice } from "@/kit/field";
import { Mark, type MarkKind } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { type CardProps, MergeCard } from "./card";
import { OpenPullRequest } from "./open-pull-request";
import { CHECKS, capital, noun, REVIEWS, STATES } from "./pull-request-labels";
import { afterMove, forgeQuery, homeKeys, pullQuery } from "./queries";

type PullRequest = Schemas["PullRequest"];
type Strategy = Schemas["PullRequestMerge"]["strategy"];

/** The workspace's pull request on its forge: opened, followed and merged from here. */
export default function PullRequestCard({ workspace: w }: CardProps) {
  const forge = useQuery(forgeQuery(w.project_id));
  // The workspace itself says whether it has one.
  const there = Boolean(w.pull_request);
  const pull = useQuery({ ...pullQuery(w.id), enabled: there });
  const [again, setAgain] = useState(false);
  const name = capital(noun(pull.data?.forge ?? forge.data?.kind));
  if ((there && pull.isPending) || forge.isPending)
    return (
      <MergeCard title={name}>
        <Skeleton rows={2} label={t`Loading the ${noun(forge.data?.kind)}`} />
      </MergeCard>
    );
  if (pull.isError && !pull.data)
    return (
      <MergeCard title={name}>
        <Failure
          what={t`The ${noun(forge.data?.kind)} could not be read.`}
          error={pull.error}
          retry={() => void pull.refetch()}
        />
      </MergeCard>
    );
  const pr = pull.data ?? null;
  const over = pr && (pr.state === "merged" || pr.state === "closed");
  if (!pr || (over && again))
    return forge.data ? <Opening workspace={w} forge={forge.data} opened={() => setAgain(false)} /> : null;
  return <Shown workspace={w} pr={pr} another={over && forge.data?.reason === "" ? () => setAgain(true) : undefined} />;
}

function Opening({
  workspace: w,
  forge,
  opened,
}: {
  workspace: Workspace;
  forge: Schemas["ProjectForge"];
  opened: () => void;
}) {
  const team = useTeam();
  if (!team.can("workspace.edit")) return null;
  return (
    <MergeCard
      title={capital(noun(forge.kind))}
      aside={forge.repository && <Where text={`${forge.host}/${forge.repository}`} />}
    >
      {forge.reason ? (
        <p className="text-fg2">
          {forge.reason}{" "}
          {team.can("project.manage") && (
            <Link
              to="/$team/p/$project"
              params={{ team: team.slug, project: w.project_id }}
              hash={forge.kind && !forge.has_credential ? "project-secrets" : "project-forge"}
              className="text-accent underline"
            >
              <Trans>Open project settings</Trans>
            </Link>
          )}
        </p>
      ) : (
        <OpenPullRequest workspace={w} forge={forge} opened={opened} />
      )}
    </MergeCard>
  );
}

const Where = ({ text }: { text: string }) => <span className="font-mono text-code break-all">{visible(text)}</span>;

function Shown({ workspace: w, pr, another }: { workspace: Workspace; pr: PullRequest; another?: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const what = noun(pr.forge);
  const [strategy, setStrategy] = useState<Strategy>("merge");
  const settle = (next?: PullRequest) => {
    if (next) client.setQueryData(homeKeys.pull(w.id), next);
    else void client.invalidateQueries({ queryKey: homeKeys.pull(w.id) });
  };
  const act = useMutation({
    mutationFn: (doing: "refresh" | "ready" | "close") =>
      data(api.POST(`/workspaces/{id}/pull-request/${doing}`, { params: { path: { id: w.id } } })),
    onSuccess: (next) => {
      settle(next);
      if (next.state === "merged") afterMove(client, w, team.slug);
    },
    onError: () => settle(),
  });
  const merge = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/pull-request/merge", {
          params: { path: { id: w.id } },
          body: { strategy, expected_head: pr.head_commit },
        }),
      ),
    onSuccess: (next) => {
      settle(next);
      toast({ kind: "good", title: t`Merged into ${next.base} on ${next.host}` });
    },
    onError: (error) => {
      // The shown state is outdated: refetch it. Nothing was merged.
      if (error instanceof ApiError && error.code === "pull_request_moved") act.mutate("refresh");
    },
    onSettled: () => afterMove(client, w, team.slug),
  });
  const push = useMutation({
    mutationFn: async () => {
      await data(
        api.POST("/workspaces/{id}/push", {
          params: { path: { id: w.id } },
          body: { what: "branch", branch: pr.head },
        }),
      );
    },
    onSuccess: () => act.mutate("refresh"),
    onSettled: () => afterMove(client, w, team.slug),
  });
  const close = async () => {
    const yes = await confirm({
      title: t`Close the ${what}?`,
      body: t`It is not merged. The branch stays on the remote and in Parawork.`,
      action: t`Close`,
      danger: true,
    });
    if (yes) act.mutate("close");
  };
  const open = pr.state === "open" || pr.state === "draft";
  const edit = team.can("workspace.edit");
  const ahead = open && pr.head_commit !== "" && pr.local_commit !== "" && pr.local_commit !== pr.head_commit;
  return (
    <MergeCard
      title={capital(what)}
      aside={
        <>
          <Where text={`${pr.host}/${pr.repository}`} />
          {edit && (
            <Button
              busy={act.isPending && act.variables === "refresh" && t`Refreshing`}
              onClick={() => act.mutate("refresh")}
            >
              <Trans>Refresh</Trans>
            </Button>
          )}
        </>
      }
    >
      <p className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <Mark kind={STATES[pr.state].kind} word={STATES[pr.state].word} />
        <a
          href={pr.url}
          target="_blank"
          rel="noreferrer noopener"
          className="min-w-0 break-words text-accent underline"
        >
          {pr.forge === "gitlab" ? "!" : "#"}
          {pr.number} {visible(pr.title)}
        </a>
        <span className="text-meta text-fg3">
          <Trans>
            <span className="font-mono break-all">{visible(pr.head)}</span> into{" "}
            <span className="font-mono break-all">{visible(pr.base)}</span>
          </Trans>
        </span>
      </p>
      <Checks pr={pr} />
      {pr.reviews.length > 0 && (
        <ul aria-label={t`Reviews`} className="flex flex-wrap gap-x-4 gap-y-1">
          {pr.reviews.map((r) => (
            <li key={r.who}>
              <Mark kind={REVIEWS[r.state].kind} word={`${visible(r.who)} ${REVIEWS[r.state].word}`} />
            </li>
          ))}
        </ul>
      )}
      {ahead && (
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <span>
            <span aria-hidden className="text-needs">
              ◆{" "}
            </span>
            <Trans>
              The local branch is at {short(pr.local_commit)}, the remote branch at {short(pr.head_commit)}.
            </Trans>
          </span>
          {edit && (
            <Button busy={push.isPending && t`Pushing`} onClick={() => push.mutate()}>
              <Trans>Push the local branch</Trans>
            </Button>
          )}
        </p>
      )}
      {pr.error && <p className="break-words text-fg2">{pr.error}</p>}
      {open && pr.blocked && <p className="break-words text-fg2">{pr.blocked}</p>}
      {open && !pr.blocked && pr.mergeable === "" && pr.synced_at !== null && (
        <p className="text-fg3">
          <Trans>The Git host is still checking whether it can be merged.</Trans>
        </p>
      )}
      {open && pr.state === "open" && team.can("workspace.merge") && (
        <Choice<Strategy>
          name="pull-strategy"
          legend={t`How ${pr.host} merges it`}
          inline
          value={strategy}
          onChange={setStrategy}
          options={[
            {
              value: "merge",
              label: t`Merge`,
              hint: pr.forge === "gitlab" ? t`Uses the default of the project there.` : t`Keeps all commits.`,
            },
            { value: "squash", label: t`Squash`, hint: t`One commit with all changes.` },
            ...(pr.forge === "gitlab"
              ? []
              : [{ value: "rebase" as const, label: t`Rebase`, hint: t`The commits on top of the base.` }]),
          ]}
        />
      )}
      <FormError error={merge.error ?? push.error ?? act.error} />
      <div className="flex flex-wrap items-center gap-2">
        {pr.state === "open" && team.can("workspace.merge") && (
          <Button
            look="primary"
            disabled={pr.mergeable === "no" || pr.head_commit === ""}
            busy={merge.isPending && t`Merging`}
            onClick={() => merge.mutate()}
          >
            <Trans>Merge on the Git host</Trans>
          </Button>
        )}
        {pr.state === "draft" && edit && (
          <Button busy={act.isPending && act.variables === "ready" && t`Updating`} onClick={() => act.mutate("ready")}>
            <Trans>Ready for review</Trans>
          </Button>
        )}
        {open && edit && (
          <Button busy={act.isPending && act.variables === "close" && t`Closing`} onClick={() => void close()}>
            <Trans>Close…</Trans>
          </Button>
        )}
        {another && edit && (
          <Button onClick={another}>
            <Trans>Open another</Trans>
          </Button>
        )}
        {pr.synced_at !== null && (
          <span className="text-meta text-fg3">
            <Trans>Asked {ago(pr.synced_at, now)}</Trans>
          </span>
        )}
      </div>
    </MergeCard>
  );
}

function Checks({ pr }: { pr: PullRequest }) {
  const [all, setAll] = useState(false);
  if (pr.checks.length === 0) return null;
  const order: Record<string, number> = { failed: 0, pending: 1, passed: 2, skipped: 3 };
  const sorted = [...pr.checks].sort((a, b) => (order[a.state] ?? 4) - (order[b.state] ?? 4));
  const shown = all ? sorted : sorted.slice(0, 5);
  return (
    <div>
      <ul aria-label={t`Checks on ${pr.host}`} className="divide-y divide-hairline border-y border-hairline">
        {shown.map((c, i) => {
          const mark: { kind: MarkKind; word: string } = CHECKS[c.state];
          return (
            <li key={`${c.name} ${i}`} className="flex flex-wrap items-baseline gap-x-3 py-1">
              <Mark kind={mark.kind} word={mark.word} />
              <span className="min-w-0 flex-1 break-words">
                {c.url ? (
                  <a href={c.url} target="_blank" rel="noreferrer noopener" className="text-accent underline">
                    {visible(c.name)}
                  </a>
                ) : (
                  visible(c.name)
                )}
                {c.text && <span className="ml-2 text-meta text-fg3">{visible(c.text)}</span>}
              </span>
            </li>
          );
        })}
      </ul>
      {sorted.length > 5 && (
        <Button aria-expanded={all} onClick={() => setAll(!all)} className="mt-1">
          {all ? t`Show fewer` : t`Show all ${sorted.length}`}
        </Button>
      )}
    </div>
  );
}
