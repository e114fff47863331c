import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { isPicture, Shown } from "@/changes/picture";
import { bytes, short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Busy, Failure } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { conflictsKey, conflictsQuery } from "./queries";

type Open = Schemas["OpenConflicts"];
type One = Schemas["OpenConflict"];
type Side = NonNullable<Schemas["ConflictSide"]>;
type Choice = Schemas["ConflictChoice"];

/** Conflicts in the worktree: text files with the lines of their markers, other files with both sides and the choices. */
export function OpenConflicts({ workspace: w, stamp }: { workspace: Workspace; stamp: string }) {
  const team = useTeam();
  const client = useQueryClient();
  const found = useQuery(conflictsQuery(w.id, stamp));
  const show = (now: Open) => client.setQueryData(conflictsQuery(w.id, stamp).queryKey, now);
  const wake = useMutation({
    mutationFn: () =>
      data(api.GET("/workspaces/{id}/update/conflicts", { params: { path: { id: w.id }, query: { wake: true } } })),
    onSuccess: show,
    onError: (error) => toastError(t`The workspace could not be woken`, error),
  });
  const [kept, setKept] = useState<Record<string, string>>({}); // snapshots from before each decision
  const decide = useMutation({
    mutationFn: ({ one, take }: { one: One; take?: Choice }) =>
      data(
        api.POST("/workspaces/{id}/update/conflicts", {
          params: { path: { id: w.id } },
          body: {
            decisions: [{ path: one.path, version: one.version, take, undo: take === undefined }],
            snapshot_id: take === undefined ? kept[one.path] : undefined,
          },
        }),
      ),
    onSuccess: (r, { one }) => {
      setKept((all) => ({ ...all, [one.path]: r.snapshot_id }));
      show(r.conflicts);
    },
    onError: (error, { one }) => {
      toastError(t`${visible(one.path)} was not resolved`, error);
      if (error instanceof ApiError && error.code === "conflict_changed") void found.refetch();
    },
    onSettled: () => void client.invalidateQueries({ queryKey: conflictsKey(w.id), refetchType: "none" }),
  });
  if (found.isPending)
    return (
      <Busy>
        <Trans>Loading the conflicts…</Trans>
      </Busy>
    );
  if (found.error)
    return (
      <Failure what={t`The conflicts could not be loaded.`} error={found.error} retry={() => void found.refetch()} />
    );
  const all = found.data;
  if (all.asleep)
    return (
      <div className="flex flex-wrap items-center gap-3">
        <p className="text-fg2">
          <Trans>The conflicts are only known in the sandbox, and it is not running.</Trans>
        </p>
        {team.can("workspace.edit") && (
          <Button busy={wake.isPending && t`Waking`} onClick={() => wake.mutate()}>
            <Trans>Wake and load conflicts</Trans>
          </Button>
        )}
      </div>
    );
  if (all.items.length === 0) return null;
  return (
    <>
      <ul aria-label={t`Conflicting files`} className="divide-y divide-hairline rounded-md border border-hairline">
        {all.items.map((one) => (
          <li key={one.path} className="flex flex-col gap-2 px-3 py-2">
            <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1">
              <span className="min-w-0 flex-1 basis-48 font-mono text-code break-all">{visible(one.path)}</span>
              <State one={one} all={all} />
              <Ways workspace={w} one={one} />
            </div>
            {one.kind !== "content" && !one.decided && <Sides workspace={w} one={one} all={all} />}
            {team.can("workspace.edit") && (
              <div role="group" aria-label={t`Resolution of ${visible(one.path)}`} className="flex flex-wrap gap-2">
                {one.decided ? (
                  <Button
                    look="quiet"
                    className="max-w-full"
                    busy={decide.isPending && decide.variables.one.path === one.path && t`Undoing`}
                    onClick={() => decide.mutate({ one })}
                  >
                    <Trans>Undo</Trans>
                    <span className="sr-only">
                      {" "}
                      <Trans>the resolution of {visible(one.path)}</Trans>
                    </span>
                  </Button>
                ) : (
                  one.choices
                    .filter((take) => one.kind !== "content" || take !== "both")
                    .map((take) => (
                      <Button
                        key={take}
                        className="h-auto min-h-[var(--control-h)] max-w-full text-left whitespace-normal"
                        disabled={decide.isPending}
                        busy={
                          decide.isPending &&
                          decide.variables.one.path === one.path &&
                          decide.variables.take === take &&
                          t`Resolving`
                        }
                        onClick={() => decide.mutate({ one, take })}
                      >
                        {label(one, take, all)}
                      </Button>
                    ))
                )}
              </div>
            )}
          </li>
        ))}
      </ul>
      {all.more > 0 && (
        <p className="text-fg3">
          <Trans>And {all.more} more.</Trans>
        </p>
      )}
    </>
  );
}

/** How a conflict stands, in a few words. */
function State({ one, all }: { one: One; all: Open }) {
  const marks = one.marks.length > 0 && (
    <Mark
      kind="needs"
      word={t`Conflict markers in ${one.marks.length > 1 ? t`lines` : t`line`} ${one.marks.join(", ")}`}
    />
  );
  if (one.decided)
    return (
      <>
        <Mark kind="merged" word={TAKEN[one.taken]?.(one, all) ?? t`Resolved`} />
        {marks}
      </>
    );
  if (one.kind === "content") return marks || <Mark kind="merged" word={t`No conflict markers`} />;
  return <Mark kind="needs" word={t`${KINDS[one.kind]}: unresolved`} />;
}

const KINDS: Record<One["kind"], string> = {
  content: "Changed on both sides",
  binary: t`Not mergeable by line`,
  deleted: t`Deleted on one side, changed on the other`,
  mode: "Executable bit differs",
  symlink: t`Different link targets`,
  submodule: t`Different submodule commits`,
  types: t`Different file types`,
  folder: t`A file and a folder`,
  renames: t`Renamed differently`,
  rename_gone: t`Renamed on one side, deleted on the other`,
};

const TAKEN: Record<string, (one: One, all: Open) => string> = {
  branch: (_, all) => t`Resolved as on ${all.branch}`,
  base: (_, all) => t`Resolved as on ${all.base}`,
  both: () => t`Kept both`,
  keep: (one) => (one.other ? t`Kept as ${visible(one.other)}` : t`Kept`),
  delete: () => t`Deleted`,
};

/** A button's label says what the result will be. */
function label(one: One, take: Choice, all: Open): string {
  const side = take === "branch" ? one.branch : one.base;
  const on = take === "branch" ? all.branch : all.base;
  switch (take) {
    case "keep":
      return one.other ? t`Keep the file as ${visible(one.other)}` : t`Keep the file`;
    case "delete":
      return t`Delete the file`;
    case "as_is":
      return t`Use the version in the worktree`;
    case "both":
      return one.other ? t`Keep both, the one of ${all.base} as ${visible(one.other)}` : t`Keep both names`;
  }
  switch (one.kind) {
    case "content":
      return t`Use all of ${on}`;
    case "renames":
      return t`Name it ${visible(side?.path ?? "")}, as on ${on}`;
    case "mode":
      return t`${side?.type === "program" ? t`Executable` : t`Not executable`}, as on ${on}`;
  }
  return t`Use the version on ${on}`;
}

/** Both sides beside each other. */
function Sides({ workspace, one, all }: { workspace: Workspace; one: One; all: Open }) {
  return (
    <div className="grid gap-px overflow-hidden rounded-md border border-hairline bg-hairline sm:grid-cols-2">
      {(
        [
          ["branch", all.branch, one.branch],
          ["base", all.base, one.base],
        ] as const
      ).map(([which, name, side]) => (
        <div key={which} className="min-w-0 bg-bg1 px-3 py-2">
          <p className="font-mono text-micro break-all text-fg3">{name}</p>
          <p className="break-words">{did(one, side)}</p>
          {side && side.type !== "symlink" && side.type !== "submodule" && isPicture(side.path) && (
            <Shown
              title={t`On ${name}`}
              path={side.path}
              stamp={side.oid}
              of={`/workspaces/${encodeURIComponent(workspace.id)}/update/conflicts/file?${new URLSearchParams({ path: one.path, side: which })}`}
            />
          )}
        </div>
      ))}
    </div>
  );
}

/** What a side did, in words. */
function did(one: One, side: Side | null): string {
  if (!side) return one.kind === "folder" ? t`Has a folder with this name` : t`Deleted it`;
  const old = one.was;
  const what = !old
    ? t`Added`
    : old.path !== side.path
      ? t`Renamed ${visible(old.path)} to ${visible(side.path)}`
      : t`Changed`;
  switch (side.type) {
    case "submodule":
      return t`${what}: a submodule at ${short(side.oid)}`;
    case "symlink":
      return t`${what}: a symbolic link`;
    case "program":
      return t`${what}: executable, ${bytes(side.size)}`;
  }
  return `${what}: ${bytes(side.size)}`;
}

/** Where else one can look at it. */
function Ways({ workspace: w, one }: { workspace: Workspace; one: One }) {
  const team = useTeam();
  return (
    <span className="flex gap-4">
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: w.key }}
        search={{ tab: "changes", file: one.path }}
        className="leading-6 text-accent hover:underline"
      >
        <Trans>Changes</Trans>
        <span className="sr-only">
          {" "}
          <Trans>of {visible(one.path)}</Trans>
        </span>
      </Link>
      {one.kind === "content" && team.can("workspace.edit") && (
        <Link
          to="/$team/w/$key/edit"
          params={{ team: team.slug, key: w.key }}
          search={{ path: one.path }}
          className="leading-6 text-accent hover:underline"
        >
          <Trans>Edit</Trans>
          <span className="sr-only"> {visible(one.path)}</span>
        </Link>
      )}
    </span>
  );
}
