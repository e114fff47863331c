import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { exact } from "@/format/time";
import { Button, IconButton } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { TextArea, TextField } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem, MenuLine } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";

const Restore = lazy(() => import("./restore"));

type Checkpoint = Schemas["Checkpoint"];

const REASONS: Record<Checkpoint["reason"], string> = {
  manual: t`Checkpoint`,
  prompt: t`Prompt`,
  timeout: t`Before the sandbox ended`,
  token_limit: t`Before the conversation was compacted`,
};

/** The states of a workspace that people, agents and Parawork marked. */
export default function Checkpoints({ workspace: w }: { workspace: Workspace }) {
  const [adding, setAdding] = useState(false);
  const list = useInfiniteQuery({
    queryKey: keys.checkpoints(w.id),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/checkpoints", {
          params: { path: { id: w.id }, query: { limit: 20, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-label={t`Checkpoints`} className="mb-4">
      <div className="mb-2 flex flex-wrap items-center gap-3">
        <Button onClick={() => setAdding(true)}>
          <Trans>Create checkpoint…</Trans>
        </Button>
      </div>
      {list.isPending && <Skeleton rows={3} label={t`Loading the checkpoints`} />}
      {list.isError && (
        <Failure what={t`The checkpoints could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">
          <Trans>No checkpoints yet. Each prompt to an agent adds one.</Trans>
        </p>
      )}
      <ol className="divide-y divide-hairline border-y border-hairline">
        {items.map((c) => (
          <CheckpointRow key={c.id} workspace={w} checkpoint={c} />
        ))}
      </ol>
      {list.hasNextPage && (
        <Button className="mt-2" busy={list.isFetchingNextPage && t`Loading`} onClick={() => void list.fetchNextPage()}>
          <Trans>Show older</Trans>
        </Button>
      )}
      {adding && <Create workspace={w} onClose={() => setAdding(false)} />}
    </section>
  );
}

function CheckpointRow({ workspace: w, checkpoint: c }: { workspace: Workspace; checkpoint: Checkpoint }) {
  const [restoring, setRestoring] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const name = c.note || REASONS[c.reason];
  const files = useQuery({
    queryKey: ["snapshot", c.snapshot_id],
    queryFn: () => data(api.GET("/snapshots/{id}", { params: { path: { id: c.snapshot_id } } })),
    enabled: restoring,
  });
  const remove = useMutation({
    mutationFn: () => data(api.DELETE("/checkpoints/{id}", { params: { path: { id: c.id } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.checkpoints(w.id) }),
    onError: (error) => toastError(t`The checkpoint was not deleted`, error),
  });
  const compare = () =>
    void navigate({
      search: (old) => ({ ...old, tab: "changes", from: c.snapshot_id, to: "now", file: undefined, line: undefined }),
    });
  const askRemove = async () => {
    const yes = await confirm({
      title: t`Delete this checkpoint?`,
      body: t`“${name}” of ${exact(c.at)} is removed. The files of the workspace do not change.`,
      action: t`Delete`,
      danger: true,
    });
    if (yes) remove.mutate();
  };
  return (
    <li className="flex items-start gap-3 py-1.5 leading-5">
      <span className="min-w-0 flex-1 break-words">
        <button type="button" className="text-left hover:underline" onClick={compare}>
          {name}
        </button>
        <span className="text-fg3">
          {" "}
          · {c.note ? `${REASONS[c.reason]} · ` : ""}
          {c.created_by ? `${c.created_by.name} · ` : ""}
          <time dateTime={new Date(c.at).toISOString()}>{exact(c.at)}</time>
        </span>
        {c.next_step && (
          <p className="text-meta text-fg2">
            <Trans>Next: {c.next_step}</Trans>
          </p>
        )}
      </span>
      <Menu
        trigger={
          <IconButton label={t`Actions for ${name}`} className="-my-1 shrink-0 pointer-coarse:-my-3">
            <Icon name="more" />
          </IconButton>
        }
      >
        <MenuItem onSelect={compare}>
          <Trans>Compare with now</Trans>
        </MenuItem>
        <MenuItem onSelect={() => setRestoring(true)}>
          <Trans>Restore…</Trans>
        </MenuItem>
        <MenuLine />
        <MenuItem danger onSelect={() => void askRemove()}>
          <Trans>Delete…</Trans>
        </MenuItem>
      </Menu>
      <Suspense>
        {restoring && files.data && (
          <Restore workspace={w} snapshot={files.data} name={name} onClose={() => setRestoring(false)} />
        )}
      </Suspense>
    </li>
  );
}

function Create({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const [note, setNote] = useState("");
  const [next, setNext] = useState("");
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/checkpoints", { params: { path: { id: w.id } }, body: { note, next_step: next } }),
      ),
    onSuccess: () => {
      toast({ kind: "good", title: t`Checkpoint created` });
      void client.invalidateQueries({ queryKey: keys.checkpoints(w.id) });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title={t`Create a checkpoint`}>
      <form
        className="flex flex-col gap-3 p-4 md:p-5"
        onSubmit={(e) => {
          e.preventDefault();
          save.mutate();
        }}
      >
        <TextField label={t`Note`} value={note} maxLength={500} onChange={(e) => setNote(e.target.value)} />
        <TextArea label={t`What to do next`} value={next} maxLength={4000} onChange={(e) => setNext(e.target.value)} />
        <FormError error={save.error} />
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={save.isPending && t`Creating`}>
            <Trans>Create</Trans>
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
