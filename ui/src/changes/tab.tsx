import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, useState } from "react";
import { api, type ChangeSet, data, type Workspace } from "@/api/client";
import { changesQuery, compareQuery, keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { useAwaitedKeys } from "@/keys/keyboard";
import { Button, buttonClass } from "@/kit/button";
import { Busy, Empty, Failure, Output, Skeleton } from "@/kit/states";
import SyncNotes from "@/sandboxes/sync-notes";
import { isBoolean, recall, remember } from "@/state/remember";
import { toast, toastError } from "@/state/toasts";
import { warmUp } from "./diff/parser";
import { Reader } from "./reader";
import { EVERYTHING, MERGED, type Sides } from "./sides";

export { prefetchChanges } from "./prefetch";

warmUp();

/** What differs between two states of the workspace: the files, their lines, and the commit. */
export default function ChangesTab({ workspace: w }: { workspace: Workspace }) {
  const { from = EVERYTHING.from, to = EVERYTHING.to, file } = useSearch({ from: "/$team/w/$key" });
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [ignoreSpace, setIgnoreSpace] = useState(() => recall("diff.ignoreSpace", isBoolean) ?? false);
  // Show the previous comparison until the next one is loaded.
  const found = useQuery({ ...compareQuery(w.id, from, to, ignoreSpace), placeholderData: (old) => old });
  const changes = useQuery(changesQuery(w.id));
  const live = changes.data;
  useLinkedFile(file, found.data?.comparison.files);
  const sync = useSync(w.id);
  const now = useNow();
  const all = from === EVERYTHING.from && to === EVERYTHING.to;
  const choose = (sides: Sides) =>
    void navigate({
      search: (s) => ({
        ...s,
        from: sides.from === EVERYTHING.from && sides.to === EVERYTHING.to ? undefined : sides.from,
        to: sides.to === EVERYTHING.to ? undefined : sides.to,
        line: undefined,
      }),
    });
  const problem = (
    <>
      {live?.error && <SyncProblem set={live} onLook={() => sync.mutate()} busy={sync.isPending} />}
      <Suspense>
        <SyncNotes workspace={w} />
      </Suspense>
    </>
  );

  if (found.isPending) return <Loading />;
  if (found.isError && (!found.data || found.isPlaceholderData))
    return (
      <div className="flex h-full flex-col">
        {problem}
        <div className="p-4">
          <Failure
            what={t`The changes could not be loaded.`}
            error={found.error}
            retry={all ? () => void found.refetch() : undefined}
          />
          {!all && (
            <Button className="mt-3" onClick={() => choose(EVERYTHING)}>
              <Trans>Show all changes</Trans>
            </Button>
          )}
        </div>
      </div>
    );
  const { comparison } = found.data;
  if (comparison.files.length === 0 && all)
    return (
      <div className="flex h-full flex-col">
        {problem}
        {live && !live.synced_at && !live.error ? (
          <div className="p-4">
            <Busy>
              <Trans>Checking for changes…</Trans>
            </Busy>
          </div>
        ) : (
          <Empty
            title={w.merged_at ? t`Everything is merged` : t`No changes yet`}
            action={
              <div className="flex flex-wrap justify-center gap-2">
                {w.merged_commit && (
                  <Button look="primary" onClick={() => choose(MERGED)}>
                    <Trans>Show what was merged</Trans>
                  </Button>
                )}
                <Button busy={sync.isPending && t`Looking`} onClick={() => sync.mutate()}>
                  <Trans>Check now</Trans>
                </Button>
                <Link
                  from="/$team/w/$key"
                  to="/$team/w/$key/edit"
                  params={(p) => p}
                  search={{}}
                  className={buttonClass()}
                >
                  <Trans>All files</Trans>
                </Link>
              </div>
            }
          >
            {w.merged_at ? (
              <Trans>
                Merged into <span className="font-mono text-code">{visible(w.base)}</span> {ago(w.merged_at, now)}, and
                nothing has changed since. New changes appear here.
              </Trans>
            ) : (
              <Trans>
                The branch is the same as <span className="font-mono text-code">{visible(w.base)}</span>. Files appear
                here as the agent writes them.
              </Trans>
            )}
          </Empty>
        )}
      </div>
    );
  return (
    <Reader
      workspace={w}
      live={live}
      newest={found.data}
      problem={problem}
      onCompare={choose}
      onIgnoreSpace={(on) => {
        remember("diff.ignoreSpace", on);
        setIgnoreSpace(on);
      }}
    />
  );
}

/** Says when the file that the page was opened at is not in the diff; later it may well leave it. */
function useLinkedFile(file: string | undefined, files: readonly { path: string }[] | undefined): void {
  const judged = useRef(false);
  useEffect(() => {
    if (judged.current || !files) return;
    judged.current = true;
    if (file && !files.some((f) => f.path === file))
      toast({ title: t`The linked file is not among the changes`, text: visible(file) });
  }, [file, files]);
}

/** Keys pressed meanwhile work once the lines are there. */
function Loading() {
  useAwaitedKeys("changes");
  return <Skeleton rows={6} label={t`Loading the changes`} />;
}

/** Checks for changes now instead of waiting for the next poll. */
function useSync(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/sync", { params: { path: { id } } })),
    onSuccess: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: keys.changes(id) }),
        client.invalidateQueries({ queryKey: keys.compared(id) }),
      ]),
    onError: (error) => toastError(t`Could not check for changes`, error),
  });
}

function SyncProblem({ set, onLook, busy }: { set: ChangeSet; onLook: () => void; busy: boolean }) {
  const now = useNow();
  return (
    <div role="alert" className="flex flex-wrap items-start gap-x-3 gap-y-1 border-b border-hairline bg-bg2 px-4 py-2">
      <div className="min-w-0 flex-1">
        <p>
          <span aria-hidden className="text-needs">
            ◆{" "}
          </span>
          <Trans>
            The last check for changes failed
            {set.synced_at ? t`. What is shown is from ${ago(set.synced_at, now)}` : ""}.
          </Trans>
        </p>
        <Output text={set.error} className="max-h-24" />
      </div>
      <Button busy={busy && t`Looking`} onClick={onLook}>
        <Trans>Check again</Trans>
      </Button>
    </div>
  );
}
