import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { api, data } from "@/api/client";
import { useTeam } from "@/app/team";
import type { ChangedFile, HunkPlace, LineRange } from "@/diff/types";
import { plural, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem } from "@/kit/menu";
import { toast, toastError } from "@/state/toasts";
import type { ChangesContext, ChangesExtension } from "../extend";
import { type Acting, discard, linesWord, type Part, partOfLines, stage } from "./act";

const StagedDialog = lazy(() => import("./staged-dialog"));
const TakeDialog = lazy(() => import("./take-dialog"));

const small =
  "min-h-6 rounded-sm px-1.5 text-meta whitespace-nowrap text-fg2 hover:bg-bg3 hover:text-fg disabled:opacity-55 pointer-coarse:min-h-11";

const COMMIT = /^[0-9a-f]{40,64}$/;

export const indexKey = (id: string) => ["workspace", id, "index"] as const;

/** Taking part of it: stage, discard, edit, what is staged, files of other workspaces. */
export function useParts(c: ChangesContext): ChangesExtension {
  const team = useTeam();
  const client = useQueryClient();
  const id = c.workspace.id;
  const can = team.can("workspace.edit") && (c.workspace.state === "ready" || c.workspace.state === "paused");
  const { comparison, refresh, workspace } = c;
  // Parts are told by two states that never change.
  const live = c.live && COMMIT.test(comparison.from.commit) && COMMIT.test(comparison.to.commit);
  const index = useQuery({
    queryKey: [...indexKey(id), comparison.to.commit, comparison.newer],
    queryFn: () => data(api.GET("/workspaces/{id}/index", { params: { path: { id } } })),
    enabled: can,
    placeholderData: (old) => old,
    retry: false,
  });
  const staged = useMemo(() => (index.data?.items ?? []).filter((f) => f.staged !== ""), [index.data]);
  return useMemo<ChangesExtension>(() => {
    if (!can) return {};
    const acting: Acting = {
      workspace,
      comparison,
      refresh,
      done: () => {
        void client.invalidateQueries({ queryKey: indexKey(id) });
        void client.invalidateQueries({ queryKey: ["workspace", id, "changes"] });
      },
    };
    const marks = new Set(staged.map((f) => f.path));
    return {
      hunkActions: live ? (h) => <HunkButtons acting={acting} hunk={h} /> : undefined,
      fileActions: (f) => <FileButtons acting={acting} file={f} team={team.slug} live={live} />,
      lineActions: live ? (at) => <LineButton acting={acting} at={at} /> : undefined,
      fileMarks: (f) =>
        marks.has(f.path) && (
          <span className="text-meta text-fg3" title="Something of it is staged">
            staged
          </span>
        ),
      toolbar: <Bar acting={acting} staged={staged.length} />,
    };
  }, [can, workspace, comparison, refresh, live, staged, team.slug, client, id]);
}

/** One thing at a time: a second press waits for the first. */
function useBusy(): [busy: boolean, run: (act: () => Promise<void>) => void] {
  const [busy, setBusy] = useState(false);
  return [
    busy,
    (act) => {
      if (busy) return;
      setBusy(true);
      void act().finally(() => setBusy(false));
    },
  ];
}

function HunkButtons({ acting, hunk }: { acting: Acting; hunk: HunkPlace }) {
  const [busy, run] = useBusy();
  const { path, ...place } = hunk;
  const part: Part = { path, hunks: [place] };
  const where = `the hunk at line ${hunk.new_start} of ${visible(path)}`;
  return (
    <span className="inline-flex font-sans">
      <button
        type="button"
        className={small}
        disabled={busy}
        aria-label={`Stage ${where}`}
        onClick={() => run(() => stage(acting, [part], "the hunk"))}
      >
        Stage
      </button>
      <button
        type="button"
        className={small}
        disabled={busy}
        aria-label={`Discard ${where}`}
        onClick={() => run(() => discard(acting, [part], "the hunk"))}
      >
        Discard
      </button>
    </span>
  );
}

function filesOf(f: ChangedFile): Part[] {
  return f.old_path ? [{ path: f.old_path }, { path: f.path }] : [{ path: f.path }];
}

function FileButtons({
  acting,
  file: f,
  team,
  live,
}: {
  acting: Acting;
  file: ChangedFile;
  team: string;
  live: boolean;
}) {
  const [busy, run] = useBusy();
  const name = visible(f.path);
  return (
    <span className="inline-flex items-center">
      {f.status !== "deleted" && !f.binary && f.mode !== "120000" && (
        <Link
          to="/$team/w/$key/edit"
          params={{ team, key: acting.workspace.key }}
          search={{ path: f.path }}
          aria-label={`Edit ${name}`}
          className={`${small} inline-flex items-center max-sm:hidden`}
        >
          Edit
        </Link>
      )}
      {live && (
        <Menu
          trigger={
            <button
              type="button"
              disabled={busy}
              aria-label={`More of ${name}`}
              title="Stage, discard"
              className="grid size-6 shrink-0 place-items-center rounded-sm text-fg3 hover:bg-bg3 hover:text-fg pointer-coarse:size-11"
            >
              <Icon name="more" size={13} />
            </button>
          }
        >
          <MenuItem onSelect={() => run(() => stage(acting, filesOf(f), name))}>Stage the file</MenuItem>
          <MenuItem onSelect={() => run(() => discard(acting, filesOf(f), name))}>Discard the file's changes</MenuItem>
        </Menu>
      )}
    </span>
  );
}

function LineButton({ acting, at }: { acting: Acting; at: LineRange }) {
  const [busy, run] = useBusy();
  const act = (what: typeof stage) =>
    run(async () => {
      try {
        const part = await partOfLines(acting, at);
        if (part.old_lines?.length || part.new_lines?.length) await what(acting, [part], linesWord(at));
        else toast({ title: "Nothing changed in these lines", text: "Choose lines that were added or removed." });
      } catch (error) {
        toastError("The lines could not be read", error);
      }
    });
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          disabled={busy}
          aria-label={`More of ${linesWord(at)} at ${at.line}`}
          title="Stage or discard lines"
          className="grid size-6 place-items-center rounded-sm bg-bg2 text-fg2 hover:bg-bg3 hover:text-fg"
        >
          <Icon name="more" size={13} />
        </button>
      }
    >
      <MenuItem onSelect={() => act(stage)}>Stage {linesWord(at)}</MenuItem>
      <MenuItem onSelect={() => act(discard)}>Discard {linesWord(at)}</MenuItem>
    </Menu>
  );
}

function Bar({ acting, staged }: { acting: Acting; staged: number }) {
  const [open, setOpen] = useState<"staged" | "take">();
  return (
    <>
      {staged > 0 && (
        <Button look="quiet" onClick={() => setOpen("staged")}>
          {plural(staged, "staged file")}
        </Button>
      )}
      <Button look="quiet" className="max-lg:hidden" onClick={() => setOpen("take")}>
        Take files
      </Button>
      <Suspense>
        {open === "staged" && <StagedDialog acting={acting} onClose={() => setOpen(undefined)} />}
        {open === "take" && <TakeDialog acting={acting} onClose={() => setOpen(undefined)} />}
      </Suspense>
    </>
  );
}
