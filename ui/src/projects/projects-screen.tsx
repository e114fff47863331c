import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { api, data, type Project } from "@/api/client";
import { keys, projectsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button, buttonClass, IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { Menu, MenuItem, MenuLine } from "@/kit/menu";
import { Page } from "@/kit/page";
import { lazy } from "@/kit/part";
import { Empty, Failure, Output, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { useTitle } from "@/state/use-title";
import { originOf } from "./origin";
import { SampleButton } from "./sample-button";

const OwnersYes = lazy(() => import("@/machines/owner-approval"));

/** The git repositories of the team. */
export function ProjectsScreen() {
  useTitle(t`Projects`);
  const team = useTeam();
  const list = useQuery(projectsQuery(team.slug));
  const navigate = useNavigate();
  const manage = team.can("project.manage");
  const add = (kind: "url" | "folder") => void navigate({ to: ".", search: (s) => ({ ...s, add: kind }) });

  return (
    <Page
      title={t`Projects`}
      actions={
        manage &&
        list.data &&
        list.data.length > 0 && (
          <>
            <SampleButton />
            <Button look="primary" keys="o p" onClick={() => add("url")}>
              <Trans>Add a project</Trans>
            </Button>
          </>
        )
      }
    >
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading projects`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The projects could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <Empty
          title={t`No projects yet`}
          action={
            manage && (
              <>
                <SampleButton look="primary" />
                <Button onClick={() => add("url")}>
                  <Trans>Add a project</Trans>
                </Button>
              </>
            )
          }
        >
          {manage
            ? t`A project is a git repository: cloned from a URL, or a folder on the server or on a machine. To try Parawork, use the sample: a small real repository, ready in a second.`
            : t`A project is a git repository. An admin of the team can add one.`}
        </Empty>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((p) => (
            <ProjectRow key={p.id} project={p} manage={manage} />
          ))}
        </ul>
      )}
    </Page>
  );
}

function ProjectRow({ project: p, manage }: { project: Project; manage: boolean }) {
  const team = useTeam();
  const now = useNow();
  const navigate = useNavigate();
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api.DELETE("/projects/{id}", { params: { path: { id: p.id } } }),
    onSuccess: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: keys.projects(team.slug) }),
        client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] }),
      ]),
    onError: (error) => toastError(t`${p.name} was not removed`, error),
  });
  const askRemove = async () => {
    const yes = await confirm({
      title: p.state === "cloning" ? t`Stop cloning ${p.name}?` : t`Remove ${p.name}?`,
      body:
        p.state === "cloning"
          ? t`The data fetched so far is deleted.`
          : p.source.kind === "path" || p.source.kind === "runner"
            ? t`It moves to the trash, where you can restore it. The folder itself does not change.`
            : t`It moves to the trash, where you can restore it. The remote repository does not change.`,
      action: p.state === "cloning" ? t`Stop` : t`Remove`,
      danger: true,
    });
    if (yes) remove.mutate();
  };
  const open = () => void navigate({ to: ".", search: (s) => ({ ...s, new: p.id }) });
  const again = useMutation({
    mutationFn: async () => {
      await api.DELETE("/projects/{id}", { params: { path: { id: p.id } } });
      return data(
        api.POST("/teams/{team}/projects", {
          params: { path: { team: team.slug } },
          body: { name: p.name, source: p.source, ...(p.default_branch ? { default_branch: p.default_branch } : {}) },
        }),
      );
    },
    onError: (error) => toastError(t`${p.name} was not cloned again`, error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.projects(team.slug) }),
  });

  return (
    <li className="px-2 py-2.5">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-60">
          <p className="flex items-baseline gap-2">
            <Link
              to="/$team/p/$project"
              params={{ team: team.slug, project: p.id }}
              className="truncate font-medium hover:underline"
            >
              {p.name}
            </Link>
            {p.state === "cloning" && <Mark kind="setup" word={t`Cloning`} className="text-meta" />}
            {p.state === "failed" && <Mark kind="failed" className="text-meta" />}
          </p>
          <p className="truncate font-mono text-micro leading-4 text-fg3" title={originOf(p.source)}>
            {originOf(p.source)}
          </p>
        </div>
        {p.state === "ready" && (
          <p className="text-meta text-fg3">
            <span className="font-mono text-micro">{p.default_branch}</span>
            {p.fetched_at ? t` · fetched ${ago(p.fetched_at, now)}` : ""} ·{" "}
            {plural(p.workspaces, { one: "# workspace", other: "# workspaces" })}
          </p>
        )}
        <div className="flex items-center gap-1">
          {p.state === "ready" && team.can("workspace.create") && (
            <Button onClick={open} aria-label={t`New workspace in ${p.name}`}>
              <Trans>New workspace</Trans>
            </Button>
          )}
          {p.state === "cloning" && manage && (
            <Button busy={remove.isPending} onClick={() => void askRemove()}>
              <Trans>Cancel</Trans>
            </Button>
          )}
          {manage && p.state !== "cloning" && (
            <Menu
              trigger={
                <IconButton label={t`More actions for ${p.name}`}>
                  <Icon name="more" />
                </IconButton>
              }
            >
              <MenuItem
                onSelect={() => void navigate({ to: "/$team/p/$project", params: { team: team.slug, project: p.id } })}
              >
                <Trans>Settings</Trans>
              </MenuItem>
              <MenuLine />
              <MenuItem danger onSelect={() => void askRemove()}>
                <Trans>Remove…</Trans>
              </MenuItem>
            </Menu>
          )}
        </div>
      </div>
      {p.state === "cloning" && (
        <p role="status" className="mt-1 truncate font-mono text-micro text-fg2">
          {p.progress || t`Connecting…`}
        </p>
      )}
      {p.state === "cloning" && p.source.runner_id && (
        <Suspense>
          <OwnersYes machineId={p.source.runner_id} about={(q) => q.workspace_id === ""} />
        </Suspense>
      )}
      {p.state === "failed" && (
        <div role="alert" className="mt-1">
          <p className="text-fg2">
            <Trans>Cloning failed. Output of git:</Trans>
          </p>
          <Output text={p.state_reason} />
          {manage && (
            <div className="mt-2 flex gap-2">
              <Button busy={again.isPending && t`Retrying`} onClick={() => again.mutate()}>
                <Trans>Try again</Trans>
              </Button>
              <Button look="quiet" onClick={() => void askRemove()}>
                <Trans>Remove</Trans>
              </Button>
            </div>
          )}
        </div>
      )}
    </li>
  );
}

export function ToProjects({ team }: { team: string }) {
  return (
    <Link to="/$team/p" params={{ team }} className={buttonClass("quiet", "-ml-2.5")}>
      <Icon name="arrowLeft" size={14} />
      <Trans>Projects</Trans>
    </Link>
  );
}
