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

/** What is in conflict in the worktree: texts with where their marks are, other files with both sides and what may be taken. */
export function OpenConflicts({ workspace: w, stamp }: { workspace: Workspace; stamp: string }) {
  const team = useTeam();
  const client = useQueryClient();
  const found = useQuery(conflictsQuery(w.id, stamp));
  const show = (now: Open) => client.setQueryData(conflictsQuery(w.id, stamp).queryKey, now);
  const wake = useMutation({
    mutationFn: () =>
      data(api.GET("/workspaces/{id}/update/conflicts", { params: { path: { id: w.id }, query: { wake: true } } })),
    onSuccess: show,
    onError: (error) => toastError("The workspace did not wake", error),
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
      toastError(`Nothing was decided of ${visible(one.path)}`, error);
      if (error instanceof ApiError && error.code === "conflict_changed") void found.refetch();
    },
    onSettled: () => void client.invalidateQueries({ queryKey: conflictsKey(w.id), refetchType: "none" }),
  });
  if (found.isPending) return <Busy>Looking at the conflicts…</Busy>;
  if (found.error)
    return <Failure what="The conflicts could not be read." error={found.error} retry={() => void found.refetch()} />;
  const all = found.data;
  if (all.asleep)
    return (
      <div className="flex flex-wrap items-center gap-3">
        <p className="text-fg2">What is in conflict is only known where the agent works, and nothing runs there now.</p>
        {team.can("workspace.edit") && (
          <Button busy={wake.isPending && "Waking"} onClick={() => wake.mutate()}>
            Wake it and look
          </Button>
        )}
      </div>
    );
  if (all.items.length === 0) return null;
  return (
    <>
      <ul aria-label="Files in conflict" className="divide-y divide-hairline rounded-md border border-hairline">
        {all.items.map((one) => (
          <li key={one.path} className="flex flex-col gap-2 px-3 py-2">
            <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1">
              <span className="min-w-0 flex-1 basis-48 font-mono text-[12px] break-all">{visible(one.path)}</span>
              <State one={one} all={all} />
              <Ways workspace={w} one={one} />
            </div>
            {one.kind !== "content" && !one.decided && <Sides workspace={w} one={one} all={all} />}
            {team.can("workspace.edit") && (
              <div role="group" aria-label={`What becomes of ${visible(one.path)}`} className="flex flex-wrap gap-2">
                {one.decided ? (
                  <Button
                    look="quiet"
                    className="max-w-full"
                    busy={decide.isPending && decide.variables.one.path === one.path && "Taking it back"}
                    onClick={() => decide.mutate({ one })}
                  >
                    Undo<span className="sr-only"> what was decided of {visible(one.path)}</span>
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
                          "Taking it"
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
      {all.more > 0 && <p className="text-fg3">And {all.more} more.</p>}
    </>
  );
}

/** How a conflict stands, in a few words. */
function State({ one, all }: { one: One; all: Open }) {
  const marks = one.marks.length > 0 && (
    <Mark kind="needs" word={`Marks left in ${one.marks.length > 1 ? "lines" : "line"} ${one.marks.join(", ")}`} />
  );
  if (one.decided)
    return (
      <>
        <Mark kind="merged" word={TAKEN[one.taken]?.(one, all) ?? "Resolved"} />
        {marks}
      </>
    );
  if (one.kind === "content") return marks || <Mark kind="merged" word="No marks left" />;
  return <Mark kind="needs" word={`${KINDS[one.kind]}: to decide`} />;
}

const KINDS: Record<One["kind"], string> = {
  content: "Both changed it",
  binary: "No lines to merge",
  deleted: "Deleted and changed",
  mode: "Program or not",
  symlink: "Two link targets",
  submodule: "Two commits of a submodule",
  types: "Two kinds of file",
  folder: "A file and a folder",
  renames: "Two new names",
  rename_gone: "Renamed and deleted",
};

const TAKEN: Record<string, (one: One, all: Open) => string> = {
  branch: (_, all) => `Taken as on ${all.branch}`,
  base: (_, all) => `Taken as on ${all.base}`,
  both: () => "Both are kept",
  keep: (one) => (one.other ? `Kept as ${visible(one.other)}` : "Kept"),
  delete: () => "Deleted",
};

/** A button says what will be there afterwards. */
function label(one: One, take: Choice, all: Open): string {
  const side = take === "branch" ? one.branch : one.base;
  const on = take === "branch" ? all.branch : all.base;
  switch (take) {
    case "keep":
      return one.other ? `Keep the file as ${visible(one.other)}` : "Keep the file";
    case "delete":
      return "Delete the file";
    case "as_is":
      return "Take it as it lies in the folder";
    case "both":
      return one.other ? `Keep both, the one of ${all.base} as ${visible(one.other)}` : "Keep both names";
  }
  switch (one.kind) {
    case "content":
      return `Take all of ${on}`;
    case "renames":
      return `Call it ${visible(side?.path ?? "")}, as on ${on}`;
    case "mode":
      return `${side?.type === "program" ? "A program" : "No program"}, as on ${on}`;
  }
  return `Take it as on ${on}`;
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
          <p className="font-mono text-[11px] break-all text-fg3">{name}</p>
          <p className="break-words">{did(one, side)}</p>
          {side && side.type !== "symlink" && side.type !== "submodule" && isPicture(side.path) && (
            <Shown
              title={`On ${name}`}
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
  if (!side) return one.kind === "folder" ? "Has a folder of this name" : "Deleted it";
  const old = one.was;
  const what = !old
    ? "Added"
    : old.path !== side.path
      ? `Renamed ${visible(old.path)} to ${visible(side.path)}`
      : "Changed";
  switch (side.type) {
    case "submodule":
      return `${what}: a submodule at ${short(side.oid)}`;
    case "symlink":
      return `${what}: a symbolic link`;
    case "program":
      return `${what}: a program, ${bytes(side.size)}`;
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
        Changes<span className="sr-only"> of {visible(one.path)}</span>
      </Link>
      {one.kind === "content" && team.can("workspace.edit") && (
        <Link
          to="/$team/w/$key/edit"
          params={{ team: team.slug, key: w.key }}
          search={{ path: one.path }}
          className="leading-6 text-accent hover:underline"
        >
          Edit<span className="sr-only"> {visible(one.path)}</span>
        </Link>
      )}
    </span>
  );
}
