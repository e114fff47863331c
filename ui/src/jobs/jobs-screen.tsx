import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { workspaceQuery } from "@/api/queries";
import { usd } from "@/format/money";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { ago, duration, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { Mark, type MarkKind } from "@/kit/mark";
import { Page } from "@/kit/page";
import { CopyLine, Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";

type Job = Schemas["Job"];

const STATUS: Record<Job["status"], { mark: MarkKind; word: string }> = {
  queued: { mark: "setup", word: t`Queued` },
  running: { mark: "running", word: t`Running` },
  completed: { mark: "done", word: t`Completed` },
  failed: { mark: "failed", word: t`Failed` },
  timeout: { mark: "failed", word: t`Timed out` },
  cancelled: { mark: "stopped", word: t`Cancelled` },
};

const jobsKey = (team: string) => ["team", team, "jobs"] as const;

/** Work that scripts asked for: what it came to, what it cost and what it left. */
export function JobsScreen() {
  useTitle(t`Jobs`);
  const team = useTeam();
  const list = useInfiniteQuery({
    queryKey: jobsKey(team.slug),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/teams/{team}/jobs", {
          params: { path: { team: team.slug }, query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const all = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <Page title={t`Jobs`} about={t`Work that scripts ask agents for: a prompt in, an answer and files out.`}>
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading the jobs`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The jobs could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title={t`No job yet`}>
          <p>
            <Trans>A script asks for one with an API token, which Settings has under API tokens:</Trans>
          </p>
          <div className="mt-2 text-left">
            <CopyLine
              label={t`the command`}
              text={`curl -X POST ${location.origin}/api/v1/teams/${team.slug}/jobs -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '{"agent": "claude-code", "prompt": "Write a haiku."}'`}
            />
          </div>
        </Empty>
      ) : (
        <>
          <ul aria-label={t`Jobs`} className="divide-y divide-hairline border-y border-hairline">
            {all.map((j) => (
              <Row key={j.id} job={j} />
            ))}
          </ul>
          {list.hasNextPage && (
            <Button
              className="mt-3"
              busy={list.isFetchingNextPage && t`Loading`}
              onClick={() => void list.fetchNextPage()}
            >
              <Trans>Older jobs</Trans>
            </Button>
          )}
        </>
      )}
    </Page>
  );
}

function Row({ job: j }: { job: Job }) {
  const team = useTeam();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const status = STATUS[j.status];
  const name = j.prompt.trim().split("\n")[0] ?? "";
  const over = j.status !== "queued" && j.status !== "running";
  const cancel = useAction({
    act: () => data(api.POST("/jobs/{id}/cancel", { params: { path: { id: j.id } } })),
    refresh: [jobsKey(team.slug)],
    failed: t`The job was not cancelled`,
  });
  const remove = useAction({
    act: () => data(api.DELETE("/jobs/{id}", { params: { path: { id: j.id } } })),
    confirm: {
      title: t`Delete this job?`,
      body: over ? t`Its artifacts are deleted, too.` : t`It is cancelled first, and its artifacts are deleted.`,
      action: t`Delete`,
      danger: true,
    },
    refresh: [jobsKey(team.slug)],
    failed: t`The job was not deleted`,
  });
  return (
    <li className="px-2 py-2">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <p className="flex items-baseline gap-x-3">
            <span className="min-w-0 truncate font-medium" title={j.prompt.slice(0, 1000)}>
              {name}
            </span>
            <Mark kind={status.mark} word={status.word} />
          </p>
          {(j.error || j.reason) && <p className="text-meta break-words text-fg3">{j.error || j.reason}</p>}
          <p className="text-meta break-words text-fg3">
            {j.agent}
            {j.model && ` · ${j.model}`} ·{" "}
            <span title={exact(j.created_at)}>
              <Trans>asked {ago(j.created_at, now)}</Trans>
            </span>
            {j.started_at && j.ended_at && t` · took ${duration(j.ended_at - j.started_at)}`}
            {j.cost_nano !== undefined && j.cost_nano > 0 && ` · ${usd(j.cost_nano)}`}
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? t`Hide` : t`Details`}
            <span className="sr-only">{open ? t` the details of ${name}` : t` of ${name}`}</span>
          </Button>
          {!over && team.can("terminal.type") && (
            <Button
              busy={cancel.busy && t`Cancelling`}
              onClick={() => void cancel.run()}
              aria-label={t`Cancel ${name}`}
            >
              <Trans>Cancel</Trans>
            </Button>
          )}
          {team.can("terminal.type") && (
            <Button
              look="quiet"
              busy={remove.busy && t`Deleting`}
              onClick={() => void remove.run()}
              aria-label={t`Delete ${name}`}
            >
              <Trans>Delete</Trans>
            </Button>
          )}
        </div>
      </div>
      {open && <Details id={j.id} />}
    </li>
  );
}

function Details({ id }: { id: string }) {
  const team = useTeam();
  const q = useQuery({
    queryKey: [...jobsKey(team.slug), id],
    queryFn: () => data(api.GET("/jobs/{id}", { params: { path: { id } } })),
  });
  const workspace = useQuery({
    ...workspaceQuery(q.data?.workspace_id ?? ""),
    enabled: !!q.data?.workspace_id,
    retry: false,
  });
  if (q.isPending) return <Skeleton rows={2} label={t`Loading the job`} />;
  if (!q.data) return <Failure what={t`The job could not be loaded.`} error={q.error} retry={() => void q.refetch()} />;
  const j = q.data;
  const sent = j.webhook?.deliveries[0];
  return (
    <div className="mt-2 space-y-3">
      {[...j.warnings].map((w) => (
        <p key={w} className="text-meta break-words text-needs">
          {w}
        </p>
      ))}
      {j.output && (
        <pre className="max-h-80 overflow-auto rounded-sm bg-bg2 px-3 py-2 font-mono text-code break-words whitespace-pre-wrap">
          {j.output}
        </pre>
      )}
      {j.artifacts.length > 0 && (
        <ul aria-label={t`Artifacts`} className="flex flex-wrap gap-x-4 gap-y-1">
          {j.artifacts.map((a) => (
            <li key={a.id} className="min-w-0 break-all">
              <a className="underline" href={`/api/v1/artifacts/${a.id}/content`} download={a.name.split("/").pop()}>
                {a.name}
              </a>{" "}
              <span className="text-meta text-fg3">{bytes(a.size)}</span>
            </li>
          ))}
        </ul>
      )}
      <div className="flex flex-wrap items-center gap-3 text-meta text-fg3">
        {workspace.data && !workspace.data.deleted_at && (
          <Link to="/$team/w/$key" params={{ team: team.slug, key: workspace.data.key }} className={buttonClass()}>
            <Trans>Open {workspace.data.key}</Trans>
          </Link>
        )}
        <span className="break-all">{j.id}</span>
        {j.webhook && (
          <span className="break-words">
            {j.webhook.url}: {sent ? t`${sent.state.replace("_", " ")}, tried ${sent.attempts}×` : t`not sent yet`}
            {sent?.error && ` (${sent.error})`}
          </span>
        )}
      </div>
    </div>
  );
}
