import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Project, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, Choice, TextField } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { imageQuery, placeKeys } from "@/sandboxes/queries";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { BuildLog } from "./build-log";

type Build = Schemas["ImageBuild"];

const MARKS = {
  building: { kind: "running", word: t`Building` },
  ready: { kind: "done", word: t`Built` },
  failed: { kind: "failed", word: t`Failed` },
  cancelled: { kind: "stopped", word: t`Cancelled` },
} as const;

/** What containers of a project are made from. */
export function Image({ project: p, readOnly }: { project: Project; readOnly: boolean }) {
  const image = useQuery({ ...imageQuery(p.id), enabled: p.state === "ready" });
  return (
    <section aria-labelledby="project-image">
      <h2 id="project-image" className="mb-1 text-title font-semibold">
        <Trans>Image</Trans>
      </h2>
      <p className="mb-2 text-fg2">
        <Trans>Workspaces in containers start from this image. Other places do not need one.</Trans>
      </p>
      {image.isPending ? (
        <Skeleton rows={2} label={t`Loading the image`} />
      ) : image.isError && !image.data ? (
        <Failure what={t`The image could not be loaded.`} error={image.error} retry={() => void image.refetch()} />
      ) : (
        <Chosen
          key={`${image.data.source} ${image.data.image.name} ${image.data.image.build} ${image.data.image.parts}`}
          project={p}
          readOnly={readOnly}
          image={image.data}
        />
      )}
    </section>
  );
}

function Chosen({
  project: p,
  readOnly,
  image,
}: {
  project: Project;
  readOnly: boolean;
  image: Schemas["ProjectImage"];
}) {
  const team = useTeam();
  const client = useQueryClient();
  const [kind, setKind] = useState(image.source);
  const [name, setName] = useState(image.image.name ?? "");
  const [file, setFile] = useState(image.image.build || image.candidates[0]?.path || "");
  const [parts, setParts] = useState(image.image.parts ?? []);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: placeKeys.image(p.id) });
    void client.invalidateQueries({ queryKey: keys.projects(team.slug) });
  };
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PATCH("/projects/{id}", {
          params: { path: { id: p.id } },
          body: { image: kind === "name" ? { name: name.trim() } : kind === "build" ? { build: file, parts } : {} },
        }),
      ),
    onSuccess: () => {
      refresh();
      toast({ kind: "good", title: t`Saved` });
    },
  });
  const build = useMutation({
    mutationFn: () =>
      data(
        api.POST("/projects/{id}/image-builds", { params: { path: { id: p.id } }, body: file ? { source: file } : {} }),
      ),
    onSuccess: refresh,
  });
  const busy = image.builds.some((b) => b.state === "building");
  return (
    <div className="flex flex-col gap-3">
      <Choice
        name="image"
        legend={t`Source`}
        hideLegend
        value={kind}
        onChange={setKind}
        options={[
          {
            value: "server",
            disabled: readOnly,
            label: t`The server's image`,
            hint: t`Chosen by an operator for all projects.`,
          },
          {
            value: "name",
            disabled: readOnly,
            label: t`A named image`,
            hint: t`It must contain git, a shell, and the agents you start.`,
          },
          {
            value: "build",
            disabled: readOnly || image.candidates.length === 0,
            label: t`Built from this repository`,
            hint: image.problem
              ? image.problem
              : image.candidates.length > 0
                ? t`From its Dockerfile or devcontainer.json on the default branch.`
                : t`The repository has no Dockerfile or devcontainer.json.`,
          },
        ]}
      />
      {kind === "name" && (
        <TextField
          label={t`Image name`}
          mono
          spellCheck={false}
          placeholder="registry.example.com/team/dev:latest"
          value={name}
          readOnly={readOnly}
          onChange={(e) => setName(e.target.value)}
        />
      )}
      {kind === "build" && image.candidates.length > 0 && (
        <Choice
          name="image-file"
          legend={t`File`}
          value={file}
          onChange={setFile}
          options={image.candidates.map((c) => ({
            value: c.path,
            disabled: readOnly,
            label: <span className="font-mono text-code">{c.path}</span>,
          }))}
        />
      )}
      {kind === "build" && image.candidates.length > 0 && (
        <fieldset>
          <legend className="mb-1 font-medium">
            <Trans>Also install</Trans>
          </legend>
          {image.parts.map((part) => (
            <Check
              key={part.name}
              label={part.title}
              hint={t`About ${part.size_mb} MB`}
              checked={parts.includes(part.name)}
              disabled={readOnly}
              onChange={(e) =>
                setParts(e.target.checked ? [...parts, part.name] : parts.filter((name) => name !== part.name))
              }
            />
          ))}
          <p className="text-meta text-fg3">
            <Trans>For the tools of agents. Needs an image of Debian or Ubuntu. Save, then build.</Trans>
          </p>
        </fieldset>
      )}
      {image.source === "build" && image.current === null && (
        <p className="text-needs">
          <span aria-hidden>◆ </span>
          <Trans>Not built yet. Containers cannot start until it is built.</Trans>
        </p>
      )}
      <FormError error={save.error ?? build.error} />
      {!readOnly && (
        <div className="flex flex-wrap gap-2">
          <Button
            disabled={kind === "name" && !name.trim()}
            busy={save.isPending && t`Saving`}
            onClick={() => save.mutate()}
          >
            <Trans>Save the image</Trans>
          </Button>
          {kind === "build" && (
            <Button disabled={busy} busy={build.isPending && t`Starting`} onClick={() => build.mutate()}>
              {image.builds.length > 0 ? t`Build again` : t`Build`}
            </Button>
          )}
        </div>
      )}
      {image.builds.length > 0 && <Builds builds={image.builds} readOnly={readOnly} onChange={refresh} />}
    </div>
  );
}

function Builds({ builds, readOnly, onChange }: { builds: Build[]; readOnly: boolean; onChange: () => void }) {
  const now = useNow();
  const [open, setOpen] = useState(builds[0]?.state === "building" ? builds[0].id : "");
  const cancel = useMutation({
    mutationFn: (id: string) => api.DELETE("/image-builds/{id}", { params: { path: { id } } }),
    onSuccess: onChange,
    onError: (error) => toastError(t`The build was not cancelled`, error),
  });
  return (
    <ul className="divide-y divide-hairline border-y border-hairline">
      {builds.map((b) => (
        <li key={b.id} className="py-1.5">
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <Mark kind={MARKS[b.state].kind} word={MARKS[b.state].word} />
            <span className="min-w-0 flex-1 truncate font-mono text-code text-fg2">{b.source}</span>
            <span className="text-meta text-fg3">{ago(b.created_at, now)}</span>
            {b.state === "building" && !readOnly && (
              <Button disabled={cancel.isPending} onClick={() => cancel.mutate(b.id)}>
                <Trans>Cancel</Trans>
              </Button>
            )}
            <Button aria-expanded={open === b.id} onClick={() => setOpen(open === b.id ? "" : b.id)}>
              <Trans>Log</Trans>
            </Button>
          </div>
          {b.state_reason && <p className="mt-1 text-meta break-words text-fg2">{b.state_reason}</p>}
          {open === b.id && <BuildLog id={b.id} live={b.state === "building"} onEnd={onChange} />}
        </li>
      ))}
    </ul>
  );
}
