import { plural, t } from "@lingui/core/macro";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import type { Comparison, LineRange } from "@/changes/diff/types";
import { toast, toastError } from "@/state/toasts";

export type Part = Schemas["Part"];

export interface Acting {
  workspace: Workspace;
  comparison: Comparison;
  refresh: () => void;
  /** Invalidates the staged changes after staging or discarding. */
  done: () => void;
}

const MOVED = new Set(["part_moved", "part_changed", "part_overlaps", "part_empty", "hunk_invalid"]);

/** Shows why a part was refused. If it has changed since it was shown, offers a refresh. */
function refused(a: Acting, title: string, error: unknown): void {
  if (error instanceof ApiError && MOVED.has(error.code))
    toast({ kind: "bad", title, text: error.message, actions: [{ label: t`Refresh`, run: a.refresh }] });
  else toastError(title, error);
}

const shown = (a: Acting, parts: Part[]) => ({ from: a.comparison.from.commit, to: a.comparison.to.commit, parts });

export async function stage(a: Acting, parts: Part[], what: string): Promise<void> {
  try {
    await data(api.POST("/workspaces/{id}/stage", { params: { path: { id: a.workspace.id } }, body: shown(a, parts) }));
    toast({ kind: "good", title: t`Staged ${what}` });
    a.done();
  } catch (error) {
    refused(a, t`Nothing was staged`, error);
  }
}

const capital = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);

/** Unstages parts. Hunks are between the branch and the index; without hunks, whole files. */
export async function unstage(a: Acting, parts: Part[], what: string): Promise<void> {
  const body = { parts, unstage: true };
  try {
    await data(api.POST("/workspaces/{id}/stage", { params: { path: { id: a.workspace.id } }, body }));
    toast({ kind: "good", title: t`${capital(what)} is no longer staged` });
    a.done();
  } catch (error) {
    a.done();
    refused(a, t`Nothing was unstaged`, error);
  }
}

export async function discard(a: Acting, parts: Part[], what: string): Promise<void> {
  const id = a.workspace.id;
  try {
    const d = await data(api.POST("/workspaces/{id}/discard", { params: { path: { id } }, body: shown(a, parts) }));
    const undo = async () => {
      try {
        await data(
          api.POST("/workspaces/{id}/discard", {
            params: { path: { id } },
            body: { from: d.snapshot_id, to: d.after || undefined, parts: d.files.map((path) => ({ path })) },
          }),
        );
        toast({ kind: "good", title: t`${capital(what)} is restored` });
        a.done();
        a.refresh();
      } catch (error) {
        toastError(t`It could not be restored here. Restore it from the timeline`, error);
      }
    };
    toast({
      title: t`Discarded ${what}`,
      text: t`A snapshot of all files was saved first.`,
      lasts: 30_000,
      actions: [{ label: t`Undo`, run: () => void undo() }],
    });
    a.done();
    a.refresh();
  } catch (error) {
    refused(a, t`Nothing was discarded`, error);
  }
}

/** The lines of both sides that chosen lines of one are about: where as many came as went, each stands for one. */
export async function partOfLines(a: Acting, at: LineRange): Promise<Part> {
  const file = await data(
    api.GET("/workspaces/{id}/parts", {
      params: {
        path: { id: a.workspace.id },
        query: { path: at.path, from: a.comparison.from.commit, to: a.comparison.to.commit },
      },
    }),
  );
  return linesOf(file, at);
}

const range = (from: number, n: number) => Array.from({ length: n }, (_, i) => from + i);

export function linesOf(file: Pick<Schemas["FileParts"], "hunks">, at: LineRange): Part {
  const oldLines: number[] = [];
  const newLines: number[] = [];
  for (const h of file.hunks) {
    const mine = at.side === "old" ? range(h.old_start, h.old_lines) : range(h.new_start, h.new_lines);
    const other = at.side === "old" ? range(h.new_start, h.new_lines) : range(h.old_start, h.old_lines);
    const picked = mine.map((_, i) => i).filter((i) => mine[i]! >= at.line && mine[i]! <= at.end_line);
    if (picked.length === 0) continue;
    const also =
      mine.length === other.length ? picked.map((i) => other[i]!) : picked.length === mine.length ? other : [];
    (at.side === "old" ? oldLines : newLines).push(...picked.map((i) => mine[i]!));
    (at.side === "old" ? newLines : oldLines).push(...also);
  }
  return { path: at.path, old_lines: oldLines, new_lines: newLines };
}

export const linesWord = (at: LineRange): string =>
  plural(at.end_line - at.line + 1, { one: "# line", other: "# lines" });

/** Query of a workspace's index. */
export const indexKey = (id: string) => ["workspace", id, "index"] as const;
