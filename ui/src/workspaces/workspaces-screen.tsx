import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { api, data, type Workspace } from "@/api/client";
import { workspacesQuery } from "@/api/queries";
import { costOf } from "@/costs/workspace-cost";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Faces } from "@/kit/faces";
import { Mark } from "@/kit/mark";
import { Page } from "@/kit/page";
import { lazy } from "@/kit/part";
import { Counts, Empty, Failure, Skeleton } from "@/kit/states";
import { Danger, onDangerous } from "@/machines/danger";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import { useMe, useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { useTitle } from "@/state/use-title";
import { snapshotSummary } from "@/timeline/snapshot-summary";
import { GROUP_NAMES, grouped, type Standing } from "./groups";
import { PrivateMark } from "./private-mark";

const HomeComposer = lazy(() => import("@/composer/home"));
const IsolationOffer = lazy(() => import("@/sandboxes/isolation-offer"));
const Trash = lazy(() => import("./trash"));

const route = getRouteApi("/$team/w");

/** All workspaces of the team: active, archived, in the trash. */
export function WorkspacesScreen() {
  const { show = "active" } = route.useSearch();
  const team = useTeam();
  const me = useMe();
  const list = useQuery(workspacesQuery(team.slug, show));
  useTitle(show === "trash" ? t`Trash` : show === "archived" ? t`Archived` : t`Workspaces`);

  return (
    <Page
      title={t`Workspaces`}
      actions={
        <Link to="/$team/runs" params={{ team: team.slug }} className={buttonClass("plain")}>
          <Trans>Comparisons</Trans>
        </Link>
      }
    >
      {me.user.operator && me.teams.length === 1 && (
        <Suspense>
          <IsolationOffer />
        </Suspense>
      )}
      <nav aria-label={t`Which workspaces`} className="mb-3 flex gap-4 border-b border-hairline">
        {(
          [
            [undefined, t`Active`],
            ["archived", t`Archived`],
            ["trash", t`Trash`],
          ] as const
        ).map(([value, label]) => (
          <Link
            key={label}
            to="/$team/w"
            params={{ team: team.slug }}
            search={{ show: value }}
            activeOptions={{ exact: true, includeSearch: true }}
            className="-mb-px border-b-2 border-transparent pb-2 text-fg2 hover:text-fg data-[status=active]:border-accent data-[status=active]:text-fg"
          >
            {label}
          </Link>
        ))}
      </nav>
      {show === "trash" ? (
        <Suspense fallback={<Skeleton rows={6} label={t`Loading the trash`} />}>
          <Trash />
        </Suspense>
      ) : list.isPending ? (
        <Skeleton rows={6} label={t`Loading workspaces`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The workspaces could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <NoWorkspaces show={show} />
      ) : show === "active" ? (
        grouped(list.data).map((g) => (
          <section key={g.group} aria-labelledby={`group-${g.group}`} className="mb-5">
            <h2 id={`group-${g.group}`} className="mb-1 text-meta text-fg3">
              {GROUP_NAMES[g.group]} {g.items.length}
            </h2>
            <ul className="divide-y divide-hairline border-y border-hairline">
              {g.items.map((i) => (
                <Row key={i.workspace.id} {...i} />
              ))}
            </ul>
          </section>
        ))
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((w) => (
            <PutAwayRow key={w.id} workspace={w} />
          ))}
        </ul>
      )}
    </Page>
  );
}

function NoWorkspaces({ show }: { show: "active" | "archived" | "trash" }) {
  const team = useTeam();
  if (show === "archived")
    return (
      <Empty title={t`No archived workspaces`}>
        <Trans>Archive a workspace to hide it and save all its work.</Trans>
      </Empty>
    );
  if (!team.can("workspace.create"))
    return (
      <Empty title={t`No workspaces yet`}>
        <Trans>A workspace is a branch, a folder and the agents working in it.</Trans>
      </Empty>
    );
  return (
    <Suspense fallback={<Skeleton label={t`Loading`} />}>
      <HomeComposer />
    </Suspense>
  );
}

function Row({ workspace: w, standing: s }: { workspace: Workspace; standing: Standing }) {
  const team = useTeam();
  const me = useMe();
  const now = useNow();
  return (
    <li>
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: w.key }}
        className="grid min-h-11 grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-2 py-1.5 -outline-offset-2 hover:bg-bg2 md:grid-cols-[minmax(0,1fr)_150px_110px_80px_90px]"
      >
        <span className="min-w-0">
          <span className="flex items-baseline gap-2">
            <span className="truncate font-medium">{w.name}</span>
            <span className="font-mono text-micro whitespace-nowrap text-fg3">{w.key}</span>
            <PrivateMark workspace={w} />
            {onDangerous(w) && <Danger />}
            <OverlapMark workspace={w} short />
            <PullMark workspace={w} />
            <Faces
              label={t`Watching`}
              people={w.agents.watchers
                .filter((p) => p.user_id !== me.user.id)
                .map((p) => ({
                  userId: p.user_id,
                  name: p.name,
                  note: p.holds ? t`has exclusive control` : undefined,
                }))}
            />
          </span>
          <span className="block truncate text-meta text-fg3">
            {w.project_name} · {w.runner_name && `${w.runner_name} · `}
            {s.text && (s.group === "needs" || s.group === "stuck" || s.group === "failed" || s.group === "setup") ? (
              <span className="text-fg2">{s.text}</span>
            ) : (
              <span className="font-mono text-micro">{w.branch}</span>
            )}
          </span>
        </span>
        <Mark kind={s.mark} word={s.word} />
        <span className="hidden text-right md:block">
          {w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />}
        </span>
        <span className="hidden text-right text-fg2 tabular-nums md:block" title={t`Cost so far`}>
          {costOf(w)}
        </span>
        <span className="hidden text-right text-fg3 md:block" title={exact(w.attention?.at ?? w.updated_at)}>
          {ago(w.attention?.at ?? w.updated_at, now)}
        </span>
      </Link>
    </li>
  );
}

function PutAwayRow({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const now = useNow();
  const client = useQueryClient();
  const navigate = useNavigate();
  const restore = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/restore", { params: { path: { id: w.id } } })),
    onSuccess: (back) => {
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      void client.invalidateQueries({ queryKey: ["workspace", w.id] });
      toast({
        kind: "good",
        title: t`${w.name} is restored`,
        actions: [
          {
            label: t`Open`,
            run: () => void navigate({ to: "/$team/w/$key", params: { team: team.slug, key: back.key } }),
          },
        ],
      });
    },
    onError: (error) => toastError(t`${w.name} could not be restored`, error, () => restore.mutate()),
  });
  const at = w.deleted_at ?? w.archived_at ?? w.updated_at;
  return (
    <li className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 px-2 py-1.5">
      <div className="min-w-0 flex-1 basis-60">
        <p className="flex items-baseline gap-2">
          <span className="truncate font-medium">{w.name}</span>
          <span className="font-mono text-micro whitespace-nowrap text-fg3">{w.key}</span>
          {w.merged_at && <Mark kind="merged" className="text-meta" />}
        </p>
        <p className="truncate text-meta text-fg3">
          {w.project_name} · <span className="font-mono text-micro">{w.branch}</span> · {snapshotSummary(w.snapshot)}
        </p>
      </div>
      <span className={cx("text-fg3")} title={exact(at)}>
        {w.deleted_at ? t`deleted` : t`archived`} {ago(at, now)}
      </span>
      {team.can("workspace.edit") && (
        <Button
          busy={restore.isPending && t`Restoring`}
          onClick={() => restore.mutate()}
          aria-label={t`Restore ${w.name}`}
        >
          <Trans>Restore</Trans>
        </Button>
      )}
    </li>
  );
}
