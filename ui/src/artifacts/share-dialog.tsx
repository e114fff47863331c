import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { LinksDialog } from "@/kit/links-dialog";
import { toastError } from "@/state/toasts";

const LIFETIMES = [
  [60, t`in an hour`],
  [1440, t`in a day`],
  [10_080, t`in 7 days`],
  [43_200, t`in 30 days`],
] as const;

/** Creates and revokes links with which somebody without a login downloads an artifact. */
export default function ShareDialog({ artifact: a, onClose }: { artifact: Schemas["Artifact"]; onClose: () => void }) {
  const client = useQueryClient();
  const now = useNow(10_000);
  const key = ["artifact", a.id, "links"];
  const refetch = () => void client.invalidateQueries({ queryKey: key });
  const params = { path: { id: a.id } };
  const list = useQuery({
    queryKey: key,
    queryFn: async () => (await data(api.GET("/artifacts/{id}/links", { params }))).items,
  });
  const create = useMutation({
    mutationFn: (body: { name: string; minutes: number }) => data(api.POST("/artifacts/{id}/links", { params, body })),
    onSuccess: refetch,
  });
  const revoke = useMutation({
    mutationFn: (id: string) => api.DELETE("/artifact-links/{id}", { params: { path: { id } } }),
    onSuccess: refetch,
    onError: (error) => toastError(t`The link was not revoked`, error),
  });
  return (
    <LinksDialog
      onClose={onClose}
      title={t`Share the artifact`}
      about={t`${a.name}, version ${a.version}. Anyone with the link can download it without signing in, and sees nothing else.`}
      subject={t`this artifact`}
      lifetimes={LIFETIMES}
      usual={1440}
      list={list}
      create={create}
      row={(l) => (
        <li key={l.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
          <div className="min-w-0 flex-1 basis-48">
            <p className="font-medium break-words">{l.name || t`Unnamed`}</p>
            <p className="text-meta text-fg3">
              <Trans>
                by {l.created_by.name} ·{" "}
                <span title={exact(l.expires_at)}>ends in {duration(Math.max(l.expires_at - now, 0))}</span> · opened{" "}
                {plural(l.uses, { one: "# time", other: "# times" })}
              </Trans>
            </p>
          </div>
          <Button
            busy={revoke.isPending && revoke.variables === l.id && t`Revoking`}
            onClick={() => revoke.mutate(l.id)}
            aria-label={t`Revoke the link: ${l.name || t`Unnamed`}`}
          >
            <Trans>Revoke</Trans>
          </Button>
        </li>
      )}
    />
  );
}
