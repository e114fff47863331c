import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense, useMemo, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import type { ChangedFile, HunkPlace, LineRange } from "@/changes/diff/types";
import type { ChangesContext, ChangesExtension } from "@/changes/extension";
import { visible } from "@/format/text";
import { Button, firstClick, IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type Acting, discard, indexKey, linesWord, type Part, partOfLines, stage, unstage } from "./act";
import { type StagedOf, stagedOf } from "./staged";

const StagedDialog = lazy(() => import("./staged-dialog"));
const TakeDialog = lazy(() => import("./take-dialog"));

const small =
  "min-h-6 rounded-sm px-1.5 text-meta whitespace-nowrap text-fg2 hover:bg-bg3 hover:text-fg disabled:opacity-55 pointer-coarse:min-h-11";

const COMMIT = /^[0-9a-f]{40,64}$/;

/** The extension for partial changes: stage, discard, edit, staged changes, files from other workspaces. */
export function useParts(c: ChangesContext): ChangesExtension {
  const team = useTeam();
  const client = useQueryClient();
  const id = c.workspace.id;
  const can = team.can("workspace.edit") && (c.workspace.state === "ready" || c.workspace.state === "paused");
  const { comparison, refresh, workspace } = c;
  // Hunks are identified by two immutable states.
  const live = c.live && COMMIT.test(comparison.from.commit) && COMMIT.test(comparison.to.commit);
  const index = useQuery({
    queryKey: [...indexKey(id), comparison.to.commit, comparison.newer],
    queryFn: () => data(api.GET("/workspaces/{id}/index", { params: { path: { id } } })),
    enabled: can,
    placeholderData: (old) => old,
    retry: false,
  });
  const staged = useMemo(() => (index.data?.items ?? []).filter((f) => f.staged !== ""), [index.data]);
  const known = index.data?.live ? index.data.items : undefined;
  const seen = index.dataUpdatedAt;
  const { narrow } = c;
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
    const states = known && new Map(known.map((f) => [f.path, f]));
    const marks = new Set(staged.map((f) => f.path));
    /** Actions for a file. Before the index is loaded, all of them: the server refuses those that do not apply. */
    const of = (path: string): Standing => {
      const f = states?.get(path);
      return {
        staged: marks.has(path),
        open: !states || (f?.unstaged !== "" && f !== undefined) || f?.untracked === true,
        seen,
      };
    };
    return {
      hunkActions: live ? (h) => <HunkButtons acting={acting} hunk={h} standing={of(h.path)} /> : undefined,
      fileActions: (f) => (
        <FileButtons acting={acting} file={f} team={team.slug} live={live} narrow={narrow} standing={of(f.path)} />
      ),
      lineActions: live ? (at) => <LineButton acting={acting} at={at} /> : undefined,
      fileMarks: (f) =>
        marks.has(f.path) && (
          <span className="text-meta text-fg3" title={t`Some of it is staged`}>
            <Trans>staged</Trans>
          </span>
        ),
      toolbar: <Bar acting={acting} staged={staged.length} team={team.slug} />,
    };
  }, [can, workspace, comparison, refresh, live, staged, known, seen, narrow, team.slug, client, id]);
}

/** What of a file is staged. */
interface Standing {
  /** Something is. */
  staged: boolean;
  /** Something is not, and not committed either. */
  open: boolean;
  /** When that was looked at. */
  seen: number;
}

/** One operation at a time: a second press waits for the first. */
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

function HunkButtons({ acting, hunk, standing }: { acting: Acting; hunk: HunkPlace; standing: Standing }) {
  const [busy, run] = useBusy();
  const { path, ...place } = hunk;
  const part: Part = { path, hunks: [place] };
  const where = t`the hunk at line ${hunk.new_start} of ${visible(path)}`;
  const index = useStagedOf(acting, hunk, standing);
  return (
    <span className="inline-flex items-center font-sans">
      {index.how === "some" && (
        <span className="px-1.5 text-meta text-fg3">
          <Trans>partly staged</Trans>
        </span>
      )}
      {index.how !== "none" && (
        <button
          type="button"
          className={small}
          disabled={busy}
          aria-label={t`Unstage ${where}`}
          onClick={firstClick(() =>
            run(() =>
              unstage(acting, [{ path, hunks: index.hunks.map(({ removed, added, ...h }) => h) }], t`the hunk`),
            ),
          )}
        >
          <Trans>Unstage</Trans>
        </button>
      )}
      {index.how !== "all" && standing.open && (
        <button
          type="button"
          className={small}
          disabled={busy}
          aria-label={t`Stage ${where}`}
          onClick={firstClick(() => run(() => stage(acting, [part], t`the hunk`)))}
        >
          <Trans>Stage</Trans>
        </button>
      )}
      <button
        type="button"
        className={small}
        disabled={busy}
        aria-label={t`Discard ${where}`}
        onClick={firstClick(() => run(() => discard(acting, [part], t`the hunk`)))}
      >
        <Trans>Discard</Trans>
      </button>
    </span>
  );
}

/** What of a shown hunk is staged; nothing while that is not known. */
function useStagedOf(acting: Acting, hunk: HunkPlace, standing: Standing): StagedOf {
  const { id } = acting.workspace;
  const { path } = hunk;
  const between = (from: string, to: string) => ({
    queryKey: [...indexKey(id), "between", path, from, to, standing.seen],
    queryFn: () => data(api.GET("/workspaces/{id}/parts", { params: { path: { id }, query: { path, from, to } } })),
    enabled: standing.staged,
    placeholderData: (old: Schemas["FileParts"] | undefined) => old,
    retry: false,
  });
  const staged = useQuery(between("head", "index"));
  const rest = useQuery(between("index", acting.comparison.to.commit));
  return useMemo(() => {
    if (!standing.staged || !staged.data || !rest.data) return NOTHING;
    return stagedOf(hunk, staged.data.hunks, rest.data.hunks);
  }, [hunk, standing.staged, staged.data, rest.data]);
}

const NOTHING: StagedOf = { how: "none", hunks: [] };

function filesOf(f: ChangedFile): Part[] {
  return f.old_path ? [{ path: f.old_path }, { path: f.path }] : [{ path: f.path }];
}

interface FileProps {
  acting: Acting;
  file: ChangedFile;
  team: string;
  live: boolean;
  narrow: boolean;
  standing: Standing;
}

function FileButtons({ acting, file: f, team, live, narrow, standing }: FileProps) {
  const [busy, run] = useBusy();
  const navigate = useNavigate();
  const name = visible(f.path);
  const to = {
    to: "/$team/w/$key/edit",
    params: { team, key: acting.workspace.key },
    search: { path: f.path },
  } as const;
  const editable = f.status !== "deleted" && !f.binary && f.mode !== "120000";
  return (
    <span className="inline-flex items-center">
      {editable && !narrow && (
        <Link {...to} aria-label={t`Edit ${name}`} className={`${small} inline-flex items-center`}>
          <Trans>Edit</Trans>
        </Link>
      )}
      {(live || (editable && narrow)) && (
        <Menu
          trigger={
            <button
              type="button"
              disabled={busy}
              aria-label={t`More actions for ${name}`}
              title={t`Stage, discard`}
              className="grid size-6 shrink-0 place-items-center rounded-sm text-fg3 hover:bg-bg3 hover:text-fg pointer-coarse:size-11"
            >
              <Icon name="more" size={13} />
            </button>
          }
        >
          {editable && narrow && (
            <MenuItem onSelect={() => void navigate(to)}>
              <Trans>Edit the file</Trans>
            </MenuItem>
          )}
          {live && standing.open && (
            <MenuItem onSelect={() => run(() => stage(acting, filesOf(f), name))}>
              <Trans>Stage the file</Trans>
            </MenuItem>
          )}
          {live && standing.staged && (
            <MenuItem onSelect={() => run(() => unstage(acting, filesOf(f), name))}>
              <Trans>Unstage the file</Trans>
            </MenuItem>
          )}
          {live && (
            <MenuItem onSelect={() => run(() => discard(acting, filesOf(f), name))}>
              <Trans>Discard the file’s changes</Trans>
            </MenuItem>
          )}
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
        else toast({ title: t`These lines have no changes`, text: t`Choose lines that were added or removed.` });
      } catch (error) {
        toastError(t`The lines could not be read`, error);
      }
    });
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          disabled={busy}
          aria-label={t`More of ${linesWord(at)} at ${at.line}`}
          title={t`Stage or discard lines`}
          className="grid size-6 place-items-center rounded-sm bg-bg2 text-fg2 hover:bg-bg3 hover:text-fg"
        >
          <Icon name="more" size={13} />
        </button>
      }
    >
      <MenuItem onSelect={() => act(stage)}>
        <Trans>Stage {linesWord(at)}</Trans>
      </MenuItem>
      <MenuItem onSelect={() => act(discard)}>
        <Trans>Discard {linesWord(at)}</Trans>
      </MenuItem>
    </Menu>
  );
}

/** What is staged, files of other workspaces, new files. */
function Bar({ acting, staged, team }: { acting: Acting; staged: number; team: string }) {
  const [open, setOpen] = useState<"staged" | "take">();
  const navigate = useNavigate();
  return (
    <>
      {staged > 0 && (
        <Button look="quiet" onClick={() => setOpen("staged")}>
          {plural(staged, { one: "# staged file", other: "# staged files" })}
        </Button>
      )}
      <Menu
        trigger={
          <IconButton label={t`More: copy files, new file`}>
            <Icon name="more" />
          </IconButton>
        }
      >
        <MenuItem onSelect={() => setOpen("take")}>
          <Trans>Copy files from another workspace…</Trans>
        </MenuItem>
        <MenuItem
          onSelect={() =>
            void navigate({
              to: "/$team/w/$key/edit",
              params: { team, key: acting.workspace.key },
              search: { naming: true },
            })
          }
        >
          <Trans>New file…</Trans>
        </MenuItem>
      </Menu>
      <Suspense>
        {open === "staged" && <StagedDialog acting={acting} onClose={() => setOpen(undefined)} />}
        {open === "take" && <TakeDialog acting={acting} onClose={() => setOpen(undefined)} />}
      </Suspense>
    </>
  );
}
