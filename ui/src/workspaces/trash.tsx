import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { type TrashItem, trashQuery } from "@/api/disk";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Empty, Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** Deleted workspaces and projects: what they take, until when they can be restored. */
export default function Trash() {
  const team = useTeam();
  const trash = useQuery(trashQuery(team.slug));
  if (trash.isPending) return <Skeleton rows={6} label={tr`Loading the trash`} />;
  if (!trash.data)
    return <Failure what={tr`The trash could not be loaded.`} error={trash.error} retry={() => void trash.refetch()} />;
  const t = trash.data;
  if (t.items.length === 0)
    return (
      <Empty title={tr`The trash is empty`}>
        <Trans>Deleted workspaces and projects stay here with all their work, including untracked files.</Trans>
      </Empty>
    );
  return (
    <>
      <p className="mb-2 text-fg2">
        {plural(t.items.length, { one: "# thing", other: "# things" })}
        {t.bytes !== null && tr`, ${bytes(t.bytes)} on disk`}.{" "}
        {t.keep_days > 0
          ? tr`Items are deleted permanently after ${plural(t.keep_days, { one: "# day", other: "# days" })}.`
          : tr`Nothing is deleted automatically.`}
      </p>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {t.items.map((i) => (
          <Item key={i.id} item={i} />
        ))}
      </ul>
    </>
  );
}

function Item({ item: i }: { item: TrashItem }) {
  const team = useTeam();
  const now = useNow();
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const params = { params: { path: { team: team.slug, id: i.id } } };
  const refresh = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] }),
      client.invalidateQueries({ queryKey: ["team", team.slug, "projects"] }),
      client.invalidateQueries({ queryKey: ["workspace", i.id] }),
    ]);
  const restore = useMutation({
    mutationFn: () => api.POST("/teams/{team}/trash/{id}/restore", params),
    onSuccess: () => {
      toast({ kind: "good", title: tr`${i.name} is restored` });
      return refresh();
    },
    onError: (error) => toastError(tr`${i.name} could not be restored`, error, () => restore.mutate()),
  });
  const may = team.can(i.kind === "project" ? "project.manage" : "workspace.edit");
  return (
    <li className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 px-2 py-1.5">
      <div className="min-w-0 flex-1 basis-60">
        <p className="flex items-baseline gap-2">
          <span className="truncate font-medium">{i.name}</span>
          {i.key ? (
            <span className="font-mono text-micro whitespace-nowrap text-fg3">{i.key}</span>
          ) : (
            <span className="text-meta text-fg3">
              <Trans>project</Trans>
            </span>
          )}
        </p>
        <p className="truncate text-meta text-fg3">
          <span title={exact(i.deleted_at)}>
            <Trans>deleted {ago(i.deleted_at, now)}</Trans>
          </span>
          {i.deleted_by && tr` by ${i.deleted_by}`}
          {i.purge_at !== null && ` · ${left(i.purge_at, now)}`}
          {!i.restorable && tr` · no unmerged work`}
        </p>
      </div>
      <span className="w-20 text-right text-fg2 tabular-nums">{i.bytes === null ? "" : bytes(i.bytes)}</span>
      {may && i.restorable && (
        <Button
          busy={restore.isPending && tr`Restoring`}
          onClick={() => restore.mutate()}
          aria-label={tr`Restore ${i.name}`}
        >
          <Trans>Restore</Trans>
        </Button>
      )}
      {team.can("team.manage") && (
        <Button onClick={() => setAsking(true)} aria-label={tr`Delete permanently: ${i.name}`}>
          <Trans>Delete permanently</Trans>
        </Button>
      )}
      {asking && <Purge item={i} onClose={() => setAsking(false)} done={refresh} />}
    </li>
  );
}

/** How long it can still be restored. */
function left(until: number, now: number): string {
  const days = Math.ceil((until - now) / 86_400_000);
  return days <= 0 ? tr`deleted within the hour` : plural(days, { one: "# day left", other: "# days left" });
}

function Purge({ item: i, onClose, done }: { item: TrashItem; onClose: () => void; done: () => Promise<unknown> }) {
  const team = useTeam();
  const client = useQueryClient();
  const purge = useMutation({
    mutationFn: () => api.POST("/teams/{team}/trash/{id}/purge", { params: { path: { team: team.slug, id: i.id } } }),
    onSuccess: async () => {
      await done();
      void client.invalidateQueries({ queryKey: ["team", team.slug, "disk"] });
      toast({ title: tr`${i.name} is deleted permanently` });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title={tr`Delete ${i.name} permanently?`} about={tr`This cannot be undone.`}>
      <DialogBody>
        <p>
          {i.kind === "project"
            ? tr`Its clone on this server is deleted. Remote repositories and your own folders do not change.`
            : tr`Its snapshots, timeline, unmerged commits and terminal history are deleted. Merged work stays.`}
        </p>
        {i.bytes !== null && i.bytes > 0 && (
          <p className="mt-2 text-fg2">
            <Trans>This would free up to {bytes(i.bytes)}.</Trans>
          </p>
        )}
        <FormError error={purge.error} />
      </DialogBody>
      <DialogFoot>
        <Button data-first onClick={onClose}>
          <Trans>Cancel</Trans>
        </Button>
        <Button look="danger" busy={purge.isPending && tr`Deleting`} onClick={() => purge.mutate()}>
          <Trans>Delete permanently</Trans>
        </Button>
      </DialogFoot>
    </Dialog>
  );
}
