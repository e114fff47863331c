import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { api, data, type Workspace } from "@/api/client";
import { workspacesQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useMe, useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { useTitle } from "@/state/use-title";
import { snapshotSummary } from "@/timeline/snapshot-summary";
import { ActiveWorkspaces } from "./active";

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

  const head = (
    <>
      <header className="mb-2 flex flex-wrap items-start gap-x-4 gap-y-2 short:hidden">
        <h1 className="min-w-0 flex-1 text-page font-semibold">
          <Trans>Workspaces</Trans>
        </h1>
        <Link to="/$team/runs" params={{ team: team.slug }} className={buttonClass("plain")}>
          <Trans>Comparisons</Trans>
        </Link>
      </header>
      {me.user.operator && me.teams.length === 1 && (
        <Suspense>
          <IsolationOffer />
        </Suspense>
      )}
      <nav aria-label={t`Which workspaces`} className="flex gap-4 border-b border-hairline">
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
            aria-current={show === (value ?? "active") ? "page" : undefined}
            className="-mb-px border-b-2 border-transparent pb-2 text-fg2 hover:text-fg aria-[current=page]:border-accent aria-[current=page]:text-fg"
          >
            {label}
          </Link>
        ))}
      </nav>
    </>
  );
  if (show === "active" && list.data && list.data.length > 0) return <ActiveWorkspaces list={list.data} head={head} />;
  return (
    <Frame head={head}>
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
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((w) => (
            <PutAwayRow key={w.id} workspace={w} />
          ))}
        </ul>
      )}
    </Frame>
  );
}

function Frame({ head, children }: { head: ReactNode; children: ReactNode }) {
  return (
    <div className="h-full overflow-y-auto">
      <div className="mx-auto max-w-page px-4 py-5 md:px-6">
        <div className="mb-3">{head}</div>
        {children}
      </div>
    </div>
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
