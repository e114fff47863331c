import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Project, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { Choice, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { forgeQuery, homeKeys } from "@/merge/queries";
import { toast } from "@/state/toasts";

type Forge = Schemas["ProjectForge"];
type Kind = NonNullable<Schemas["ForgeSettings"]["kind"]>;

const KINDS: { value: Exclude<Kind, "">; label: string; api: string }[] = [
  { value: "github", label: "GitHub", api: "/api/v3" },
  { value: "gitlab", label: "GitLab", api: "/api/v4" },
  { value: "gitea", label: "Gitea", api: "/api/v1" },
  { value: "forgejo", label: "Forgejo", api: "/api/v1" },
];

/** Where a project's pull requests are. */
export default function ProjectForge({ project: p, readOnly }: { project: Project; readOnly: boolean }) {
  const forge = useQuery({ ...forgeQuery(p.id), enabled: p.state === "ready" });
  if (p.state !== "ready") return null;
  return (
    <section aria-labelledby="project-forge" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-forge" className="text-title font-semibold">
        <Trans>Git host</Trans>
      </h2>
      {forge.isPending ? (
        <Skeleton rows={2} label={t`Loading the Git host`} />
      ) : forge.isError && !forge.data ? (
        <Failure what={t`The Git host could not be loaded.`} error={forge.error} retry={() => void forge.refetch()} />
      ) : (
        <Form key={JSON.stringify(forge.data.settings)} project={p} forge={forge.data} readOnly={readOnly} />
      )}
    </section>
  );
}

function Form({ project: p, forge, readOnly }: { project: Project; forge: Forge; readOnly: boolean }) {
  const client = useQueryClient();
  const [kind, setKind] = useState<Kind>(forge.settings.kind ?? "");
  const [url, setUrl] = useState(forge.settings.api_url ?? "");
  const [repository, setRepository] = useState(forge.settings.repository ?? "");
  const named = kind !== "" && kind !== "none";
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PATCH("/projects/{id}", {
          params: { path: { id: p.id } },
          body: { forge: named ? { kind, api_url: url.trim(), repository: repository.trim() } : { kind } },
        }),
      ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: homeKeys.forge(p.id) });
      toast({ kind: "good", title: t`Saved` });
    },
  });
  const field = (f: string) => fieldError(save.error, `forge.${f}`);
  return (
    <form
      aria-label={t`Git host`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!readOnly && !save.isPending) save.mutate();
      }}
    >
      <p className="break-words text-fg2">
        {forge.name && forge.repository && (
          <>
            <Trans>
              Pull requests are opened on {forge.name}, for{" "}
              <span className="font-mono text-code break-all">
                {forge.host}/{forge.repository}
              </span>
              .
            </Trans>{" "}
          </>
        )}
        {forge.reason || t`With the git credential for ${forge.token_host}.`}
      </p>
      <Choice<Kind>
        name="forge-kind"
        legend={t`Type of Git host`}
        value={kind}
        onChange={setKind}
        inline
        options={[
          { value: "", label: t`Detect from the remote's address`, disabled: readOnly },
          ...KINDS.map((k) => ({ value: k.value, label: k.label, disabled: readOnly })),
          { value: "none" as const, label: t`None`, hint: t`No pull requests from Parawork.`, disabled: readOnly },
        ]}
      />
      {named && (
        <>
          <TextField
            label={t`API address`}
            mono
            spellCheck={false}
            placeholder={`https://git.example.com${KINDS.find((k) => k.value === kind)?.api ?? ""}`}
            hint={t`Leave empty for the default on the remote's host.`}
            value={url}
            readOnly={readOnly}
            error={field("api_url")}
            onChange={(e) => setUrl(e.target.value)}
          />
          <TextField
            label={t`Repository`}
            mono
            spellCheck={false}
            placeholder="owner/name"
            hint={t`Leave empty to use the one in the remote's address.`}
            value={repository}
            readOnly={readOnly}
            error={field("repository")}
            onChange={(e) => setRepository(e.target.value)}
          />
        </>
      )}
      <FormError error={save.error && !["kind", "api_url", "repository"].some(field) ? save.error : null} />
      {field("kind") && <p className="text-failed">{field("kind")}</p>}
      {!readOnly && (
        <Button type="submit" busy={save.isPending && t`Saving`} className="self-start">
          <Trans>Save the Git host</Trans>
        </Button>
      )}
    </form>
  );
}
