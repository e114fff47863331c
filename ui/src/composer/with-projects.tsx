import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Project } from "@/api/client";
import { projectsQuery } from "@/api/queries";
import { buttonClass } from "@/kit/button";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { SampleButton } from "@/projects/sample-button";
import { isString, recall } from "@/state/remember";
import { useTeam } from "@/state/team";

interface Props {
  /** The project to begin with; "" is the last one. */
  projectId: string;
  /** Puts what is shown when there is no project into its frame. */
  otherwise: (shown: ReactNode) => ReactNode;
  children: (projects: Project[], first: Project) => ReactNode;
}

/** What needs a project that is ready: until there is one, how to get it. */
export function WithProjects({ projectId, otherwise, children }: Props) {
  const team = useTeam();
  const projects = useQuery(projectsQuery(team.slug));
  const ready = projects.data?.filter((p) => p.state === "ready") ?? [];
  const last = recall("project", isString);
  const first = ready.find((p) => p.id === projectId) ?? ready.find((p) => p.id === last) ?? ready[0];
  if (first) return children(ready, first);
  if (projects.isPending) return otherwise(<Skeleton label={t`Loading the projects`} />);
  if (projects.isError && !projects.data)
    return otherwise(
      <Failure
        what={t`The projects could not be loaded.`}
        error={projects.error}
        retry={() => void projects.refetch()}
      />,
    );
  const cloning = projects.data.some((p) => p.state === "cloning");
  const manage = team.can("project.manage");
  return otherwise(
    <Empty
      title={cloning ? t`Your project is still being cloned` : t`Add a project first`}
      action={
        <>
          {manage && !cloning && <SampleButton look="primary" />}
          <Link
            to="/$team/p"
            params={{ team: team.slug }}
            search={manage && !cloning ? { add: "url" } : {}}
            className={buttonClass("plain")}
          >
            {manage && !cloning ? t`Add a project` : t`Go to projects`}
          </Link>
        </>
      }
    >
      {manage
        ? t`A project is a git repository. To try Parawork, use the sample: a small real repository, ready in a second.`
        : t`A workspace is a branch of one of your team's projects. An admin of the team can add one.`}
    </Empty>,
  );
}
