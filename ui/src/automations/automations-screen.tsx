import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { Mark, type MarkKind } from "@/kit/mark";
import { Page } from "@/kit/page";
import { CopyLine, Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { AutomationDialog } from "./automation-dialog";
import { type Automation, type AutomationRun, automationsKey, when } from "./automations";

const STATE: Record<AutomationRun["state"], { mark: MarkKind; word: string }> = {
  waiting: { mark: "setup", word: t`Waits` },
  running: { mark: "running", word: t`Running` },
  completed: { mark: "done", word: t`Completed` },
  failed: { mark: "failed", word: t`Failed` },
  skipped: { mark: "stopped", word: t`Skipped` },
};

const CAUSE: Record<AutomationRun["cause"], string> = {
  schedule: t`on schedule`,
  missed: t`after a missed time`,
  event: t`for an event`,
  manual: t`by hand`,
};

/** What starts agents by itself, and how it went. */
export function AutomationsScreen() {
  useTitle(t`Automations`);
  const team = useTeam();
  const [editing, setEditing] = useState<Automation | "new">();
  const list = useInfiniteQuery({
    queryKey: automationsKey(team.slug),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/teams/{team}/automations", {
          params: { path: { team: team.slug }, query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const all = list.data?.pages.flatMap((p) => p.items) ?? [];
  const make = team.can("terminal.type") && (
    <Button look="primary" onClick={() => setEditing("new")}>
      <Trans>New automation</Trans>
    </Button>
  );
  return (
    <Page
      title={t`Automations`}
      about={t`Agents that start by themselves: at times, when a git host reports an event, or by a webhook.`}
      actions={all.length > 0 && make}
    >
      {list.isPending ? (
        <Skeleton rows={4} label={t`Loading the automations`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The automations could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title={t`No automation yet`} action={make}>
          <Trans>An agent can update what is out of date each night, or begin with an issue once it has a label.</Trans>
        </Empty>
      ) : (
        <>
          <ul aria-label={t`Automations`} className="divide-y divide-hairline border-y border-hairline">
            {all.map((a) => (
              <Row key={a.id} automation={a} edit={() => setEditing(a)} />
            ))}
          </ul>
          {list.hasNextPage && (
            <Button
              className="mt-3"
              busy={list.isFetchingNextPage && t`Loading`}
              onClick={() => void list.fetchNextPage()}
            >
              <Trans>Older automations</Trans>
            </Button>
          )}
        </>
      )}
      {editing && (
        <AutomationDialog of={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />
      )}
    </Page>
  );
}

function Row({ automation: a, edit }: { automation: Automation; edit: () => void }) {
  const team = useTeam();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const refresh = [automationsKey(team.slug)];
  const name = a.name;
  const pause = useAction({
    act: () => data(api.PATCH("/automations/{id}", { params: { path: { id: a.id } }, body: { paused: !a.paused } })),
    refresh,
    failed: a.paused ? t`The automation does not go on` : t`The automation was not paused`,
  });
  const run = useAction({
    act: () => data(api.POST("/automations/{id}/run", { params: { path: { id: a.id } }, body: {} })),
    refresh,
    done: t`It starts now`,
    failed: t`The automation was not started`,
  });
  const remove = useAction({
    act: () => data(api.DELETE("/automations/{id}", { params: { path: { id: a.id } } })),
    confirm: {
      title: t`Remove ${name}?`,
      body: t`A run that goes on is cancelled. What its runs made stays.`,
      action: t`Remove`,
      danger: true,
    },
    refresh,
    failed: t`The automation was not removed`,
  });
  const last = a.last_run;
  const nextIn = a.next_at ? exact(a.next_at) : undefined;
  return (
    <li className="px-2 py-2">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <p className="flex flex-wrap items-baseline gap-x-3">
            <span className="min-w-0 truncate font-medium">{a.name}</span>
            {a.paused ? (
              <Mark kind="stopped" word={t`Paused`} />
            ) : (
              last && <Mark kind={STATE[last.state].mark} word={STATE[last.state].word} />
            )}
          </p>
          {a.because && <p className="text-meta break-words text-failed">{a.because}</p>}
          {last?.error && <p className="text-meta break-words text-fg3">{last.error}</p>}
          <p className="text-meta break-words text-fg3">
            {when(a)}
            {nextIn && (
              <>
                {" · "}
                <Trans>next {nextIn}</Trans>
              </>
            )}
            {last && (
              <>
                {" · "}
                <span title={exact(last.created_at)}>
                  <Trans>last {ago(last.created_at, now)}</Trans>
                </span>
              </>
            )}
            {a.runs > 0 && (
              <>
                {" · "}
                {plural(a.runs, { one: "# run in 30 days", other: "# runs in 30 days" })}
                {a.failed > 0 && <Trans>, {a.failed} failed</Trans>}
              </>
            )}
            {!!a.month_nano && (
              <>
                {" · "}
                <Trans>{usd(a.month_nano)} this month</Trans>
              </>
            )}
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button aria-expanded={open} onClick={() => setOpen(!open)} aria-label={t`Runs of ${name}`}>
            <Trans>Runs</Trans>
          </Button>
          {team.can("terminal.type") && (
            <>
              <Button busy={run.busy && t`Starting`} onClick={() => void run.run()} aria-label={t`Run now: ${name}`}>
                <Trans>Run now</Trans>
              </Button>
              <Button onClick={edit} aria-label={t`Edit ${name}`}>
                <Trans>Edit</Trans>
              </Button>
              <Button
                busy={pause.busy && t`Changing`}
                onClick={() => void pause.run()}
                aria-label={a.paused ? t`Continue ${name}` : t`Pause ${name}`}
              >
                {a.paused ? <Trans>Continue</Trans> : <Trans>Pause</Trans>}
              </Button>
              <Button
                look="quiet"
                busy={remove.busy && t`Removing`}
                onClick={() => void remove.run()}
                aria-label={t`Remove ${name}`}
              >
                <Trans>Remove</Trans>
              </Button>
            </>
          )}
        </div>
      </div>
      {open && <Runs of={a} />}
    </li>
  );
}

function Runs({ of: a }: { of: Automation }) {
  const team = useTeam();
  const now = useNow();
  const runs = useQuery({
    queryKey: [...automationsKey(team.slug), a.id, "runs"],
    queryFn: () => data(api.GET("/automations/{id}/runs", { params: { path: { id: a.id }, query: { limit: 20 } } })),
  });
  if (runs.isPending) return <Skeleton rows={2} label={t`Loading the runs`} />;
  if (!runs.data)
    return <Failure what={t`The runs could not be loaded.`} error={runs.error} retry={() => void runs.refetch()} />;
  return (
    <div className="mt-2 space-y-2">
      {a.events_url && <CopyLine label={t`where events are reported`} text={a.events_url} />}
      {runs.data.items.length === 0 && (
        <p className="text-meta text-fg3">
          <Trans>It has not run yet.</Trans>
        </p>
      )}
      <ul className="space-y-1">
        {runs.data.items.map((r) => (
          <li key={r.id} className="flex flex-wrap items-baseline gap-x-3">
            <Mark kind={STATE[r.state].mark} word={STATE[r.state].word} />
            <span className="min-w-0 flex-1 text-meta break-words text-fg3">
              <span title={exact(r.created_at)}>{ago(r.created_at, now)}</span> {CAUSE[r.cause]}
              {r.fields["event.title"] && `: ${r.fields["event.title"]}`}
              {r.folded > 0 && <> {plural(r.folded, { one: "and # more event", other: "and # more events" })}</>}
              {r.error && ` · ${r.error}`}
              {!!r.cost_nano && ` · ${usd(r.cost_nano)}`}
            </span>
            {r.job_ids.map((id) => (
              <JobLink key={id} id={id} />
            ))}
          </li>
        ))}
      </ul>
    </div>
  );
}

function JobLink({ id }: { id: string }) {
  const team = useTeam();
  const job = useQuery({
    queryKey: ["team", team.slug, "jobs", id],
    queryFn: () => data(api.GET("/jobs/{id}", { params: { path: { id } } })),
    retry: false,
  });
  const workspace = useQuery({
    queryKey: ["workspace", job.data?.workspace_id ?? "", "of-job"],
    queryFn: () =>
      data(api.GET("/workspaces/{id}", { params: { path: { id: job.data?.workspace_id ?? "" } } })) as Promise<
        Schemas["Workspace"]
      >,
    enabled: !!job.data?.workspace_id,
    retry: false,
  });
  const w = workspace.data;
  if (!w || w.deleted_at) return null;
  return (
    <Link to="/$team/w/$key" params={{ team: team.slug, key: w.key }} className={buttonClass()}>
      {w.key}
    </Link>
  );
}
