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
        Tools for agents
      </h2>
      <p className="text-fg2">
        Agents read the list of tools at every turn, which costs tokens. Tools that are not listed work on the command
        line and by name.
      </p>
      {tools.isPending && <Skeleton rows={4} label="Loading the tools" />}
      {tools.isError && !tools.data && (
        <Failure what="The tools could not be loaded." error={tools.error} retry={() => void tools.refetch()} />
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
          {count(sum.listed)} of {count(tools.data.max_listed)} listed, about {count(sum.tokens)} tokens at every turn
        </p>
      )}
    </section>
  );
}

const CHOICES: [Schemas["ProjectLanguages"]["after_edits"], string][] = [
  ["errors", "New errors after each edit"],
  ["turn_end", "New errors at the end of a turn"],
  ["on_demand", "Only when an agent asks"],
  ["off", "Off: no language server runs"],
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
      What language servers tell agents
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
