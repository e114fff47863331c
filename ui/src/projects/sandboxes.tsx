import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Project, type Schemas } from "@/api/client";
import { executorsQuery, keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, Choice, TextArea } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { LimitsForm } from "@/sandboxes/limits-form";
import { Place } from "@/sandboxes/place-choice";
import { NETWORKS, networkName, whole } from "@/sandboxes/words";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { Image } from "./image";

/** Saves a part of a project. */
function usePatch(project: Project) {
  const team = useTeam();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["ProjectPatch"]) =>
      data(api.PATCH("/projects/{id}", { params: { path: { id: project.id } }, body })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.projects(team.slug) });
      void client.invalidateQueries({ queryKey: keys.project(project.id) });
      toast({ kind: "good", title: t`Saved` });
    },
  });
}

interface Props {
  project: Project;
  readOnly: boolean;
}

/** The place, limits and network access of a project's workspaces. */
export default function ProjectPlaces({ project: p, readOnly }: Props) {
  return (
    <div className="mt-8 flex max-w-form flex-col gap-8">
      <PlaceOf project={p} readOnly={readOnly} />
      <NetworkOf project={p} readOnly={readOnly} />
      <LimitsOf project={p} readOnly={readOnly} />
      <Image project={p} readOnly={readOnly} />
    </div>
  );
}

function PlaceOf({ project: p, readOnly }: Props) {
  const team = useTeam();
  const places = useQuery(executorsQuery(team.slug));
  const save = usePatch(p);
  return (
    <section aria-labelledby="project-place">
      <h2 id="project-place" className="mb-2 text-title font-semibold">
        <Trans>Place</Trans>
      </h2>
      {places.isPending ? (
        <Skeleton rows={3} label={t`Loading the places`} />
      ) : places.isError && !places.data ? (
        <Failure what={t`The places could not be loaded.`} error={places.error} retry={() => void places.refetch()} />
      ) : (
        <Place
          name="project-executor"
          legend={t`Place for new workspaces`}
          places={places.data.filter((p) => !p.runner_id)} // a machine is its owner's to choose
          above={{ label: t`Team default`, hint: t`Existing workspaces do not move.` }}
          value={p.executor ?? ""}
          readOnly={readOnly || save.isPending}
          onChange={(executor) => save.mutate({ executor })}
        />
      )}
      <Check
        className="mt-2"
        label={t`Share the team's caches`}
        hint={t`Go, npm and pip packages that isolated workspaces share instead of downloading again. Members of the team can change them.`}
        checked={p.caches}
        disabled={readOnly || save.isPending}
        onChange={(e) => save.mutate({ caches: e.target.checked })}
      />
      <FormError error={save.error} />
    </section>
  );
}

function NetworkOf({ project: p, readOnly }: Props) {
  const save = usePatch(p);
  const [mode, setMode] = useState(p.network.mode);
  const [agentHosts, setAgentHosts] = useState(p.network.agent_hosts);
  const [names, setNames] = useState(p.network.allow.join("\n"));
  return (
    <section aria-labelledby="project-network">
      <h2 id="project-network" className="mb-2 text-title font-semibold">
        <Trans>Network</Trans>
      </h2>
      <form
        className="flex flex-col gap-3"
        onSubmit={(e) => {
          e.preventDefault();
          save.mutate({
            network: {
              mode,
              agent_hosts: agentHosts,
              allow: names
                .split(/[\s,]+/)
                .map((l) => l.trim())
                .filter(Boolean),
            },
          });
        }}
      >
        <Choice
          name="network"
          legend={t`Network access of agents in isolated places`}
          value={mode}
          onChange={setMode}
          options={[
            {
              value: "",
              disabled: readOnly,
              label: t`Server default`,
              hint: t`${networkName(p.network.default_mode)}, set by an operator.`,
            },
            ...NETWORKS.map((n) => ({ value: n.value as string, disabled: readOnly, label: n.name, hint: n.means })),
          ]}
        />
        {mode === "allow" && (
          <TextArea
            label={t`Allowed names`}
            mono
            rows={4}
            readOnly={readOnly}
            spellCheck={false}
            placeholder={"@registries\n*.example.com\ngit.example.com:8443"}
            hint="One per line. *.name includes all subdomains, @registries the common package registries, @git the common Git hosts."
            value={names}
            onChange={(e) => setNames(e.target.value)}
          />
        )}
        {mode === "allow" && (
          <Check
            label={t`Include the agents' services`}
            hint={t`Without these, agents cannot reach their models.`}
            checked={agentHosts}
            disabled={readOnly}
            onChange={(e) => setAgentHosts(e.target.checked)}
          />
        )}
        <FormError error={save.error} />
        {!readOnly && (
          <Button type="submit" className="self-start" busy={save.isPending && t`Saving`}>
            <Trans>Save the network</Trans>
          </Button>
        )}
      </form>
    </section>
  );
}

function LimitsOf({ project: p, readOnly }: Props) {
  const save = usePatch(p);
  return (
    <section aria-labelledby="project-limits">
      <h2 id="project-limits" className="mb-2 text-title font-semibold">
        <Trans>Limits of each workspace</Trans>
      </h2>
      <LimitsForm
        value={whole(p.limits)}
        from={t`this server`}
        readOnly={readOnly}
        saving={save.isPending}
        error={save.error}
        onSave={(limits) => save.mutate({ limits })}
      />
    </section>
  );
}
