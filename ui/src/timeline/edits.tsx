import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";
import { keys } from "@/api/queries";
import { visible } from "@/format/text";
import { clock, exact } from "@/format/time";
import { DiffBlock } from "@/highlight/code";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { Counts, Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toast } from "@/state/toasts";
import { ConflictPlace } from "./conflict-place";
import { conflictsOf, type Edit, madeBy } from "./edit-words";

/** The changes of files in a workspace, newest first, with who made each. */
export default function Edits({ workspace }: { workspace: string }) {
  const list = useInfiniteQuery({
    queryKey: keys.edits(workspace),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/edits", {
          params: { path: { id: workspace }, query: { limit: 30, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  const leftOut = list.data?.pages[0]?.left_out ?? 0;
  return (
    <section aria-label={t`Edits`} className="mb-4">
      {list.isPending && <Skeleton rows={3} label={t`Loading the edits`} />}
      {list.isError && !list.data && (
        <Failure what={t`The edits could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">
          <Trans>No edits yet. A change of a file appears here some seconds after it was made.</Trans>
        </p>
      )}
      {items.length > 0 && (
        <ol className="divide-y divide-hairline border-y border-hairline">
          {items.map((e) => (
            <Row key={e.id} edit={e} />
          ))}
        </ol>
      )}
      {leftOut > 0 && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>
            {plural(leftOut, { one: "# change", other: "# changes" })} not listed: too many files changed at once.
          </Trans>
        </p>
      )}
      {list.hasNextPage && (
        <Button className="mt-2" busy={list.isFetchingNextPage && t`Loading`} onClick={() => void list.fetchNextPage()}>
          <Trans>Show older</Trans>
        </Button>
      )}
    </section>
  );
}

function Row({ edit: e }: { edit: Edit }) {
  const [open, setOpen] = useState(false);
  const undone = e.undone_at !== null;
  return (
    <li>
      <details onToggle={(ev) => setOpen(ev.currentTarget.open)}>
        <summary
          className={cx(
            "flex cursor-pointer flex-wrap items-baseline gap-x-3 py-1.5 leading-5 pointer-coarse:py-3",
            undone && "text-fg3",
          )}
        >
          <time dateTime={new Date(e.at).toISOString()} title={exact(e.at)} className="text-meta text-fg3">
            {clock(e.at, Date.now())}
          </time>
          <span className="font-mono text-code break-all">
            {e.old_path && `${visible(e.old_path)} → `}
            {visible(e.path)}
          </span>
          <span className="min-w-0 flex-1 truncate text-fg3">{visible(madeBy(e))}</span>
          {undone && (
            <span className="text-meta">
              <Trans>Undone</Trans>
            </span>
          )}
          {e.verified && (
            <Mark
              kind={e.verified === "passed" ? "done" : "failed"}
              word={e.verified === "passed" ? t`Checks passed` : t`Checks failed`}
              className="text-meta"
            />
          )}
          {e.kind !== "modified" && <span className="text-meta text-fg3">{e.kind}</span>}
          {!e.binary && (
            <Counts additions={e.additions} deletions={e.deletions} className={cx(undone && "opacity-60")} />
          )}
        </summary>
        {open && <Details edit={e} />}
      </details>
    </li>
  );
}

function Details({ edit: e }: { edit: Edit }) {
  const found = useQuery({
    queryKey: [...keys.edits(e.workspace_id), e.id],
    queryFn: () =>
      data(api.GET("/workspaces/{id}/edits/{edit}", { params: { path: { id: e.workspace_id, edit: e.id } } })),
  });
  if (found.isPending) return <Skeleton rows={3} label={t`Loading the diff`} />;
  if (found.isError)
    return <Failure what={t`The diff could not be loaded.`} error={found.error} retry={() => void found.refetch()} />;
  const d = found.data;
  return (
    <div className="flex flex-col gap-2 pb-3">
      {d.diff && <DiffBlock diff={d.diff} cut={d.truncated} />}
      {!d.diff && <p className="text-meta text-fg3">{withoutDiff(d)}</p>}
      {e.undone_at !== null ? (
        <p className="text-meta text-fg3">
          <Trans>
            Undone{e.undone_by?.name && t` by ${e.undone_by.name}`}, {exact(e.undone_at)}
          </Trans>
        </p>
      ) : (
        !d.expired && <Undo edit={e} />
      )}
    </div>
  );
}

function withoutDiff(d: Schemas["EditDetails"]): string {
  if (d.expired) return t`The contents have expired with their snapshots, so this edit can no longer be undone.`;
  return d.edit.binary ? t`A binary file.` : t`No line changed.`;
}

/** The button that undoes an edit, and the places that contradict it. */
function Undo({ edit: e }: { edit: Edit }) {
  const client = useQueryClient();
  const send = (body: Schemas["EditUndo"]) =>
    data(
      api.POST("/workspaces/{id}/edits/{edit}/undo", { params: { path: { id: e.workspace_id, edit: e.id } }, body }),
    );
  const undo = useMutation({
    mutationFn: async () => {
      const tried = await send({ dry_run: true });
      const yes = await confirm({
        title: t`Undo this edit?`,
        body: tried.merged
          ? t`Later changes of ${visible(e.path)} stay. A snapshot of all files is taken first.`
          : t`${visible(e.path)} becomes what it was before. A snapshot of all files is taken first.`,
        action: t`Undo`,
      });
      if (!yes) return undefined;
      try {
        return await send({});
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "agent_working") throw error;
        const anyway = await confirm({
          title: t`Undo while an agent works?`,
          body: t`The agent would not notice that the file changed.`,
          action: t`Undo anyway`,
          danger: true,
        });
        return anyway ? send({ even_while_working: true }) : undefined;
      }
    },
    onSuccess: (done) => {
      if (!done) return;
      toast({ kind: "good", title: done.changed ? t`Edit undone` : t`The file already was as before the edit` });
      void client.invalidateQueries({ queryKey: keys.edits(e.workspace_id) });
    },
  });
  const conflict = conflictsOf(undo.error);
  return (
    <>
      {conflict ? (
        <div role="alert" className="flex flex-col gap-3 rounded-md border border-failed p-3">
          <p>
            <Trans>
              This edit cannot be undone: later changes contradict it
              {conflict.total > 0 && t` in ${plural(conflict.total, { one: "# place", other: "# places" })}`}. Nothing
              was changed.
            </Trans>
          </p>
          {conflict.places.map((c) => (
            <ConflictPlace key={c.line} conflict={c} />
          ))}
          {conflict.total > conflict.places.length && (
            <p className="text-meta text-fg3">
              <Trans>
                {plural(conflict.total - conflict.places.length, { one: "# more place", other: "# more places" })} not
                shown.
              </Trans>
            </p>
          )}
        </div>
      ) : (
        <FormError error={undo.error} />
      )}
      <div>
        <Button busy={undo.isPending && t`Undoing`} onClick={() => undo.mutate()}>
          <Trans>Undo this edit…</Trans>
        </Button>
      </div>
    </>
  );
}
