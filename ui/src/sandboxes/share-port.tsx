import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { useNow } from "@/format/now";
import { duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { LinksDialog } from "@/kit/links-dialog";
import { toastError } from "@/state/toasts";

const LIFETIMES = [
  [60, t`in an hour`],
  [1440, t`in a day`],
  [10_080, t`in 7 days`],
] as const;

/** Creates and revokes links with which somebody without a login sees one port. */
export default function SharePort({ id, port, onClose }: { id: string; port: number; onClose: () => void }) {
  const client = useQueryClient();
  const now = useNow(10_000);
  const key = ["workspace", id, "port-links"];
  const refetch = () => void client.invalidateQueries({ queryKey: key });
  const list = useQuery({
    queryKey: key,
    queryFn: async () =>
      (await data(api.GET("/workspaces/{id}/port-links", { params: { path: { id } } }))).items.filter(
        (l) => l.port === port,
      ),
  });
  const create = useMutation({
    mutationFn: (body: { name: string; minutes: number }) =>
      data(api.POST("/workspaces/{id}/port-links", { params: { path: { id } }, body: { ...body, port } })),
    onSuccess: refetch,
  });
  const revoke = useMutation({
    mutationFn: (link: string) => api.DELETE("/workspaces/{id}/port-links/{link}", { params: { path: { id, link } } }),
    onSuccess: refetch,
    onError: (error) => toastError(t`The link was not revoked`, error),
  });
  return (
    <LinksDialog
      onClose={onClose}
      title={t`Share port ${port}`}
      about={t`Anyone with the link can use what listens on this port without signing in, and sees nothing else.`}
      subject={t`this port`}
      lifetimes={LIFETIMES}
      usual={60}
      list={list}
      create={create}
      row={(l) => (
        <li key={l.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
          <div className="min-w-0 flex-1 basis-48">
            <p className="font-medium break-words">{l.name || t`Unnamed`}</p>
            <p className="text-meta text-fg3" title={exact(l.expires_at)}>
              <Trans>ends in {duration(Math.max(l.expires_at - now, 0))}</Trans>
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
