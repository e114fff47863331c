import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data, type Project } from "@/api/client";
import { fieldError } from "@/api/problem";
import { branchesQuery, keys, projectsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Combobox } from "@/kit/combobox";
import { Field, TextArea, TextField } from "@/kit/field";
import { Page } from "@/kit/page";
import { NotFound } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useNamedPart } from "@/kit/use-named-part";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { useTitle } from "@/state/use-title";
import { originOf } from "./origin";
import { ToProjects } from "./projects-screen";

const ProjectGitWork = lazy(() => import("./git-work"));
const ProjectMerging = lazy(() => import("./merging"));
const ProjectPlaces = lazy(() => import("./sandboxes"));
const ProjectForge = lazy(() => import("./forge"));
const ProjectSecrets = lazy(() => import("./secrets"));
const ProjectMemory = lazy(() => import("@/tools/memory"));
const ProjectSkills = lazy(() => import("@/tools/skills"));
const IssueSettings = lazy(() => import("@/tasks/issue-settings"));
const ProjectTools = lazy(() => import("@/tools/groups"));
const PermissionRules = lazy(() => import("@/tools/permissions"));

const route = getRouteApi("/$team/p/$project");

/** The parts of the page below its first, by their headings' ids. */
const PARTS = [
  ["project-checks", t`Checks and merging`],
  ["project-queue", t`Merge queue`],
  ["project-place", t`Place and network`],
  ["project-forge", t`Git host`],
  ["project-secrets", t`Secrets`],
  ["project-issues", t`Tasks and issues`],
  ["project-tools", t`Tools for agents`],
  ["project-skills", t`Instructions and skills`],
  ["permission-rules", t`Permissions`],
  ["project-memory", t`Memory`],
] as const;

const PART_IDS = PARTS.map(([id]) => id);

/** What a project does for each new workspace. */
export function ProjectScreen() {
  const { project: id } = route.useParams();
  const team = useTeam();
  const list = useQuery(projectsQuery(team.slug));
  const project = list.data?.find((p) => p.id === id);
  useTitle(project?.name ?? t`Project`);
  useNamedPart(PART_IDS);
  if (list.isPending) return <Skeleton />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-4"
        what={t`The project could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  if (!project) return <NotFound />;
  return (
    <Page title={project.name} about={originOf(project.source)} actions={<ToProjects team={team.slug} />}>
      <Suspense>
        <ProjectGitWork project={project.id} />
      </Suspense>
      <nav aria-label={t`On this page`} className="mb-4 flex flex-wrap gap-x-4 gap-y-1 text-meta">
        {PARTS.map(([id, words]) => (
          <Link key={id} to="." hash={id} className="leading-6 text-accent hover:underline">
            {words}
          </Link>
        ))}
      </nav>
      <ProjectForm key={project.id} project={project} readOnly={!team.can("project.manage")} />
      <Suspense fallback={<Skeleton rows={4} label={t`Loading the places`} />}>
        <ProjectMerging key={`${project.id} merging`} project={project} readOnly={!team.can("project.manage")} />
        <ProjectPlaces key={`${project.id} places`} project={project} readOnly={!team.can("project.manage")} />
        <ProjectForge key={`${project.id} forge`} project={project} readOnly={!team.can("project.manage")} />
        <ProjectSecrets key={`${project.id} secrets`} project={project.id} />
        <IssueSettings key={`${project.id} issues`} project={project.id} readOnly={!team.can("project.manage")} />
        <ProjectTools key={`${project.id} tools`} project={project.id} readOnly={!team.can("project.manage")} />
        <ProjectSkills
          key={`${project.id} skills`}
          team={team.slug}
          project={project.id}
          readOnly={!team.can("workspace.edit")}
          mayInstruct={team.can("project.manage")}
        />
        <PermissionRules
          key={`${project.id} rules`}
          team={team.slug}
          project={project.id}
          readOnly={!team.can("project.manage")}
        />
        <ProjectMemory key={`${project.id} memory`} project={project.id} readOnly={!team.can("workspace.edit")} />
      </Suspense>
    </Page>
  );
}

const lines = (text: string) =>
  text
    .split("\n")
    .map((l) => l.trim())
    .filter(Boolean);

function ProjectForm({ project: p, readOnly }: { project: Project; readOnly: boolean }) {
  const team = useTeam();
  const client = useQueryClient();
  const [name, setName] = useState(p.name);
  const [branch, setBranch] = useState(p.default_branch);
  const [script, setScript] = useState(p.setup_script);
  const [allowed, setAllowed] = useState(p.allowed_commands.join("\n"));
  const [ignored, setIgnored] = useState(p.copy_ignored.join("\n"));
  const branches = useQuery({ ...branchesQuery(p.id), enabled: p.state === "ready" });
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PATCH("/projects/{id}", {
          params: { path: { id: p.id } },
          body: {
            name,
            default_branch: branch,
            setup_script: script,
            copy_ignored: lines(ignored),
            allowed_commands: lines(allowed),
          },
        }),
      ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.projects(team.slug) });
      toast({ kind: "good", title: t`Saved` });
    },
  });
  const field = (f: string) => fieldError(save.error, f);

  return (
    <form
      className="flex max-w-form flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
      onKeyDown={(e) => {
        if ((e.ctrlKey || e.metaKey) && e.key === "s") {
          e.preventDefault();
          if (!readOnly) save.mutate();
        }
      }}
    >
      <fieldset disabled={readOnly} className="contents">
        <TextField
          label={t`Name`}
          required
          value={name}
          error={field("name")}
          onChange={(e) => setName(e.target.value)}
        />
        <Field
          label={t`Default branch`}
          hint={t`New workspaces start from this branch unless you choose another.`}
          error={field("default_branch")}
        >
          {(ids) => (
            <Combobox
              {...ids}
              label={t`Default branch`}
              value={branch}
              disabled={readOnly}
              onChange={setBranch}
              options={(branches.data?.items ?? []).map((b) => ({ value: b.name, text: b.name }))}
            />
          )}
        </Field>
        <TextArea
          label={t`Setup script`}
          mono
          rows={6}
          placeholder={"npm ci\ncp .env.example .env"}
          hint={t`Runs in each new workspace before the first session. Its output is visible. Leave empty for none.`}
          value={script}
          error={field("setup_script")}
          onChange={(e) => setScript(e.target.value)}
        />
        <TextArea
          label={t`Ignored files to copy`}
          mono
          rows={3}
          placeholder=".env"
          hint={t`Git-ignored files to copy into each workspace. One pattern per line.`}
          value={ignored}
          error={field("copy_ignored")}
          onChange={(e) => setIgnored(e.target.value)}
        />
        <TextArea
          label={t`Commands allowed on the server`}
          mono
          rows={3}
          placeholder={t`make`}
          hint={t`Only where config.json restricts which programs commands may start on the server itself. One program per line.`}
          value={allowed}
          error={field("allowed_commands")}
          onChange={(e) => setAllowed(e.target.value)}
        />
      </fieldset>
      <FormError
        error={
          save.error && !["name", "default_branch", "setup_script", "copy_ignored", "allowed_commands"].some(field)
            ? save.error
            : null
        }
      />
      {!readOnly && (
        <Button type="submit" look="primary" busy={save.isPending && t`Saving`} keys="mod+s" className="self-start">
          <Trans>Save</Trans>
        </Button>
      )}
    </form>
  );
}
