import { plural, t } from "@lingui/core/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, apiUrl, data, raw } from "@/api/client";
import { ApiError } from "@/api/problem";
import { keys } from "@/api/queries";
import { visible } from "@/format/text";
import { confirm } from "@/state/confirm";
import { dismiss, toast, toastError } from "@/state/toasts";

/** A file that is sent, and where to. */
export interface Upload {
  path: string;
  file: File;
}

const at = (workspace: string, what: string, query: Record<string, string>) =>
  `/workspaces/${workspace}/${what}?${new URLSearchParams(query)}`;

/** The address of a file's bytes, or of a folder's archive. */
export const downloadOf = (workspace: string, path: string, folder: boolean): string =>
  apiUrl(at(workspace, folder ? "download" : "files", { path }));

/** Joins a folder's path and a name. */
export const inside = (folder: string, name: string) => (folder ? `${folder}/${name}` : name);

/** The folder a path is in, "" for the root. */
export const parentOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

async function put(workspace: string, { path, file }: Upload, replace: boolean): Promise<void> {
  await raw(at(workspace, "files", { path }), {
    method: "PUT",
    headers: { "Content-Type": "application/octet-stream", ...(replace ? {} : { "If-None-Match": "*" }) },
    body: file,
  });
}

/** At most so many files are sent at once. */
const AT_ONCE = 3;

/** What can be done to files of a workspace. Each says what happened, with a way back. */
export function useFileActs(workspace: string) {
  const client = useQueryClient();
  return useMemo(() => {
    const again = () => {
      void client.invalidateQueries({ queryKey: ["workspace", workspace, "tree"] });
      void client.invalidateQueries({ queryKey: keys.changes(workspace) });
    };

    const move = async (from: string, to: string, undoing = false): Promise<boolean> => {
      try {
        await data(api.POST("/workspaces/{id}/rename", { params: { path: { id: workspace } }, body: { from, to } }));
      } catch (error) {
        toastError(undoing ? t`The move was not undone` : t`It was not moved`, error);
        return false;
      } finally {
        again();
      }
      if (undoing) toast({ kind: "good", title: t`Moved back to ${visible(to)}` });
      else
        toast({
          kind: "good",
          title: t`Moved to ${visible(to)}`,
          lasts: 15_000,
          actions: [{ label: t`Undo`, run: () => void move(to, from, true) }],
        });
      return true;
    };

    const restore = async (snapshot: string, path: string) => {
      try {
        await data(
          api.POST("/snapshots/{id}/restore", {
            params: { path: { id: snapshot } },
            body: { into: "same", paths: [path], dry_run: false, even_while_working: true, ignored: false },
          }),
        );
        toast({ kind: "good", title: t`Restored ${visible(path)}` });
      } catch (error) {
        toastError(t`${visible(path)} was not restored. The timeline has its snapshot`, error);
      } finally {
        again();
      }
    };

    const remove = async (path: string, folder: boolean, unsaved = false): Promise<boolean> => {
      let snapshot = "";
      try {
        const query = { path, ...(folder ? { recursive: "true" } : {}), ...(unsaved ? { unsaved: "true" } : {}) };
        const answer = await raw(at(workspace, "files", query), { method: "DELETE" });
        snapshot = answer.headers.get("Snapshot-Id") ?? "";
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "not_in_snapshots") {
          toastError(t`${visible(path)} was not deleted`, error);
          return false;
        }
        const named = Array.isArray(error.details.files) ? error.details.files.slice(0, 5).map(String) : [];
        const yes = await confirm({
          title: t`Delete ${visible(path)} for good?`,
          body: (
            <>
              <p>{error.message}</p>
              <ul className="mt-1.5 font-mono text-code">
                {named.map((f) => (
                  <li key={f}>{visible(f)}</li>
                ))}
              </ul>
            </>
          ),
          action: t`Delete for good`,
          danger: true,
        });
        return yes ? remove(path, folder, true) : false;
      } finally {
        again();
      }
      toast({
        kind: "good",
        title: t`Deleted ${visible(path)}`,
        lasts: 15_000,
        actions: snapshot ? [{ label: t`Undo`, run: () => void restore(snapshot, path) }] : undefined,
      });
      return true;
    };

    const makeFolder = async (path: string): Promise<boolean> => {
      try {
        await data(api.POST("/workspaces/{id}/folders", { params: { path: { id: workspace } }, body: { path } }));
        return true;
      } catch (error) {
        toastError(t`The folder was not created`, error);
        return false;
      } finally {
        again();
      }
    };

    const upload = async (files: Upload[], replace = false): Promise<void> => {
      if (files.length === 0) return;
      const note = toast({
        title: t`Uploading ${plural(files.length, { one: "# file", other: "# files" })}`,
        lasts: 600_000,
      });
      const there: Upload[] = [];
      let failed = 0;
      let sent = 0;
      let reason: unknown;
      const queue = [...files];
      const lane = async () => {
        for (let next = queue.shift(); next; next = queue.shift()) {
          try {
            await put(workspace, next, replace);
            sent++;
          } catch (error) {
            if (error instanceof ApiError && error.code === "file_exists") there.push(next);
            else {
              failed++;
              reason = error;
              if (error instanceof ApiError && (error.status === 0 || error.status === 403)) queue.length = 0;
            }
          }
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
      dismiss(note);
      again();
      if (failed > 0)
        toastError(t`${plural(failed, { one: "# file", other: "# files" })} could not be uploaded`, reason);
      if (sent > 0) toast({ kind: "good", title: t`Uploaded ${plural(sent, { one: "# file", other: "# files" })}` });
      if (there.length === 0) return;
      const yes = await confirm({
        title:
          there.length === 1
            ? t`Replace ${visible(there[0]!.path)}?`
            : t`Replace ${plural(there.length, { one: "# file", other: "# files" })}?`,
        body: t`Files with these names exist already. A snapshot of the workspace is saved first.`,
        action: t`Replace`,
        danger: true,
      });
      if (yes) await upload(there, true);
    };

    return { move, remove, makeFolder, upload };
  }, [client, workspace]);
}

/** At most so many files of dropped folders are taken. */
const MOST_DROPPED = 2000;

/** The files of what was dropped or pasted, those of folders too, with where they go. */
export async function uploadsOf(transfer: DataTransfer, folder: string): Promise<Upload[]> {
  const out: Upload[] = [];
  const entries = [...transfer.items].map((i) => i.webkitGetAsEntry?.()).filter((e) => e != null);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ path: inside(folder, file.name), file }));
  const walk = async (entry: FileSystemEntry, to: string): Promise<void> => {
    if (out.length >= MOST_DROPPED || entry.name === ".git") return;
    const path = inside(to, entry.name);
    if (entry.isFile) {
      const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
      out.push({ path, file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
      if (some.length === 0) return;
      for (const one of some) await walk(one, path);
    }
  };
  for (const entry of entries) await walk(entry, folder);
  if (out.length >= MOST_DROPPED)
    toast({
      title: t`Only the first ${plural(MOST_DROPPED, { one: "# file", other: "# files" })} are uploaded`,
      text: t`Use git or the command line for more.`,
    });
  return out;
}
