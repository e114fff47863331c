import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { networkQuery, placeKeys } from "./queries";
import { NETWORKS, networkName } from "./words";

const FROM = {
  instance: t`this server`,
  preset: t`a list`,
  project: t`the project`,
  workspace: t`this workspace`,
} as const;

const PRESETS: Record<string, string> = {
  "@agents": t`the agents' own services`,
  "@registries": t`package registries`,
  "@git": t`Git hosts`,
};

/** What a workspace's agents may reach, what they were refused, and the way to allow it. */
export function Network({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const network = useQuery(networkQuery(w.id));
  const [host, setHost] = useState("");
  const refresh = () => client.invalidateQueries({ queryKey: placeKeys.network(w.id) });
  const allow = useMutation({
    mutationFn: (name: string) =>
      data(api.POST("/workspaces/{id}/network/allow", { params: { path: { id: w.id } }, body: { host: name } })),
    onSuccess: (_, name) => {
      setHost("");
      void refresh();
      toast({
        kind: "good",
        title: t`${visible(name)} is allowed for this workspace`,
        text: t`New connections are allowed immediately.`,
      });
    },
  });
  const forbid = useMutation({
    mutationFn: (name: string) =>
      api.DELETE("/workspaces/{id}/network/allow", { params: { path: { id: w.id }, query: { host: name } } }),
    onSuccess: () => void refresh(),
  });
  if (network.isPending) return <Skeleton rows={3} label={t`Loading the network settings`} />;
  if (network.isError && !network.data)
    return (
      <Failure
        what={t`The network settings could not be loaded.`}
        error={network.error}
        retry={() => void network.refetch()}
      />
    );
  const n = network.data;
  return (
    <div className="flex flex-col gap-3">
      <p>
        <span className="font-medium">{networkName(n.mode)}.</span>{" "}
        <span className="text-fg2">{NETWORKS.find((x) => x.value === n.mode)?.means}</span>{" "}
        {team.can("project.manage") && (
          <Link
            to="/$team/p/$project"
            params={{ team: team.slug, project: w.project_id }}
            className="min-h-6 text-accent underline underline-offset-2"
          >
            <Trans>Change it for the project</Trans>
          </Link>
        )}
      </p>
      <section aria-labelledby="refused">
        <h3 id="refused" className="mb-1 font-medium">
          <Trans>Blocked</Trans>
        </h3>
        {n.refused.length === 0 ? (
          <p className="text-fg3">
            <Trans>No connections were blocked.</Trans>
          </p>
        ) : (
          <ul className="divide-y divide-hairline border-y border-hairline">
            {n.refused.map((r) => {
              const name = r.port === 443 || r.port === 80 ? r.host : `${r.host}:${r.port}`;
              return (
                <li key={`${r.host}:${r.port}`} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5">
                  <div className="min-w-0 flex-1 basis-56">
                    <p className="font-mono text-code break-all">{visible(name)}</p>
                    <p className="text-meta text-fg3">
                      <Trans>
                        {r.explanation} {plural(r.times, { one: "# time", other: "# times" })}, last{" "}
                        {ago(r.last_at, now)}.
                      </Trans>
                    </p>
                  </div>
                  {n.may_allow && r.allowable && (
                    <Button disabled={allow.isPending} onClick={() => allow.mutate(name)}>
                      <Trans>Allow for this workspace</Trans>
                      <span className="sr-only">: {visible(name)}</span>
                    </Button>
                  )}
                </li>
              );
            })}
          </ul>
        )}
        {n.refused_full && (
          <p className="mt-1 text-meta text-fg3">
            <Trans>Older entries were removed.</Trans>
          </p>
        )}
      </section>
      {n.mode === "allow" && (
        <section aria-labelledby="names">
          <h3 id="names" className="mb-1 font-medium">
            <Trans>Allowed names</Trans>
          </h3>
          <ul className="divide-y divide-hairline border-y border-hairline">
            {n.names.map((x) => (
              <li key={`${x.name} ${x.from}`} className="flex min-h-8 items-center gap-3 py-1">
                <span className="min-w-0 flex-1 font-mono text-code break-all">{visible(x.name)}</span>
                <span className="text-meta text-fg3">{(x.preset && PRESETS[x.preset]) || FROM[x.from]}</span>
                {x.from === "workspace" && n.may_allow && (
                  <Button disabled={forbid.isPending} onClick={() => forbid.mutate(x.name)}>
                    <Trans>Remove</Trans>
                    <span className="sr-only"> {visible(x.name)}</span>
                  </Button>
                )}
              </li>
            ))}
          </ul>
          {n.may_allow && (
            <form
              className="mt-2 flex items-start gap-2"
              onSubmit={(e) => {
                e.preventDefault();
                if (host.trim()) allow.mutate(host.trim());
              }}
            >
              <TextField
                fieldClass="min-w-0 flex-1"
                label={t`Allow another name for this workspace`}
                mono
                spellCheck={false}
                autoCapitalize="none"
                placeholder="*.example.com"
                value={host}
                onChange={(e) => setHost(e.target.value)}
              />
              <Button type="submit" className="mt-6" disabled={!host.trim()} busy={allow.isPending && t`Allowing`}>
                <Trans>Allow</Trans>
              </Button>
            </form>
          )}
        </section>
      )}
      <FormError error={allow.error ?? forbid.error} />
    </div>
  );
}
