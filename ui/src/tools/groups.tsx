import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { count } from "@/format/text";
import { Check, inputClass } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { groupCost, listedWith, switched } from "./words";

/** Which groups of tools a project's agents have, and what those cost them. */
export default function ProjectTools({ project, readOnly }: { project: string; readOnly: boolean }) {
  const client = useQueryClient();
  const key = keys.projectTools(project);
  const path = { id: project };
  const tools = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET("/projects/{id}/tools", { params: { path } })),
  });
  const set = useMutation({
    scope: { id: `tools of ${project}` },
    mutationFn: (enabled: string[]) => data(api.PUT("/projects/{id}/tools", { params: { path }, body: { enabled } })),
    onSuccess: (now) => client.setQueryData(key, now),
  });
  const groups = tools.data?.groups ?? [];
  const on = set.isPending ? set.variables : groups.filter((g) => g.enabled).map((g) => g.name);
  const sum = listedWith(groups, on);
  return (
    <section aria-labelledby="project-tools" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-tools" className="text-title font-semibold">
        <Trans>Tools for agents</Trans>
      </h2>
      <p className="text-fg2">
        <Trans>
          Agents read the list of tools at every turn, which costs tokens. Tools that are not listed work on the command
          line and by name.
        </Trans>
      </p>
      {tools.isPending && <Skeleton rows={4} label={t`Loading the tools`} />}
      {tools.isError && !tools.data && (
        <Failure what={t`The tools could not be loaded.`} error={tools.error} retry={() => void tools.refetch()} />
      )}
      <fieldset disabled={readOnly} className="contents">
        {groups.map((g) => (
          <Check
            key={g.name}
            role="switch"
            label={g.title}
            hint={
              <>
                {g.description}
                <span className="block" title={g.tools.map((t) => t.name).join(", ")}>
                  {groupCost(g)}
                </span>
              </>
            }
            checked={on.includes(g.name)}
            onChange={(e) => set.mutate(switched(on, g.name, e.target.checked))}
          />
        ))}
      </fieldset>
      <FormError error={set.error} />
      <AfterEdits project={project} readOnly={readOnly} />
      {tools.data && (
        <p role="status" className="font-medium">
          <Trans>
            {count(sum.listed)} of {count(tools.data.max_listed)} listed, about {count(sum.tokens)} tokens at every turn
          </Trans>
        </p>
      )}
    </section>
  );
}

const CHOICES: [Schemas["ProjectLanguages"]["after_edits"], string][] = [
  ["errors", t`New errors after each edit`],
  ["turn_end", t`New errors at the end of a turn`],
  ["on_demand", t`Only when an agent asks`],
  ["off", t`Off: no language server runs`],
];

/** When language servers tell agents about problems. */
function AfterEdits({ project, readOnly }: { project: string; readOnly: boolean }) {
  const client = useQueryClient();
  const key = [...keys.project(project), "languages"];
  const params = { path: { id: project } };
  const now = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET("/projects/{id}/languages", { params })),
  });
  const set = useMutation({
    mutationFn: (after_edits: Schemas["ProjectLanguages"]["after_edits"]) =>
      data(api.PUT("/projects/{id}/languages", { params, body: { after_edits } })),
    onSuccess: (to) => client.setQueryData(key, to),
  });
  if (!now.data) return null;
  return (
    <label className="flex flex-col gap-1">
      <Trans>What language servers tell agents</Trans>
      <select
        className={inputClass}
        disabled={readOnly || set.isPending}
        value={set.isPending ? set.variables : now.data.after_edits}
        onChange={(e) => set.mutate(e.target.value as Schemas["ProjectLanguages"]["after_edits"])}
      >
        {CHOICES.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
      <FormError error={set.error} />
    </label>
  );
}
