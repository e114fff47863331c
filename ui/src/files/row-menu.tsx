import { type ReactElement, useEffect, useState } from "react";
import type { Workspace } from "@/api/client";
import { visible } from "@/format/text";
import { MenuItem, MenuLabel, MenuLine, MenuOverlay } from "@/kit/menu-parts";
import { toast } from "@/state/toasts";
import { downloadOf, parentOf } from "./acts";
import { editorLinks } from "./editors";
import type { FilesRow } from "./rows";

export interface MenuTarget {
  /** The row it is about; undefined for the whole workspace. */
  row?: FilesRow;
  /** Where on the page the menu opens; undefined for its button. */
  at?: { x: number; y: number };
}

export interface RowDoes {
  open: (path: string) => void;
  newFile: (folder: string) => void;
  newFolder: (folder: string) => void;
  upload: (folder: string, whole: boolean) => void;
  rename: (row: FilesRow) => void;
  remove: (row: FilesRow) => void;
}

interface Props {
  workspace: Workspace;
  target: MenuTarget;
  can: boolean;
  does: RowDoes;
  trigger?: ReactElement<object>;
  onClose: () => void;
}

const WHY_NO_EDITOR = "Its files are in a sandbox or on a machine that the server knows no folder of, or not for you.";

/** What can be done to a row of the tree, or to the whole workspace. */
export default function RowMenu({ workspace: w, target: { row, at }, can, does, trigger, onClose }: Props) {
  // Open only once it is drawn: what it hangs on must be there first.
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(true), []);
  const folder = !row || row.kind === "note" ? "" : row.kind === "folder" ? row.path : parentOf(row.path);
  const one = row && row.kind !== "note" ? row : undefined;
  const isFolder = !one || one.kind === "folder";
  const file = one?.kind === "file" && one.entry.type === "file";
  const editors = editorLinks(w, one?.path ?? "");
  return (
    <MenuOverlay
      align={at ? "start" : "end"}
      open={open}
      onOpenChange={(on) => {
        setOpen(on);
        if (!on) onClose();
      }}
      trigger={
        trigger ?? (
          <button
            type="button"
            tabIndex={-1}
            aria-label="File actions"
            className="pointer-events-none fixed size-0"
            style={{ left: at?.x, top: at?.y }}
          />
        )
      }
    >
      <MenuLabel>{one ? visible(one.path) : "All files"}</MenuLabel>
      {one && !isFolder && <MenuItem onSelect={() => does.open(one.path)}>Open</MenuItem>}
      {can && (
        <>
          <MenuItem onSelect={() => does.newFile(folder)}>New file…</MenuItem>
          <MenuItem onSelect={() => does.newFolder(folder)}>New folder…</MenuItem>
          <MenuItem onSelect={() => does.upload(folder, false)}>Upload files…</MenuItem>
          <MenuItem onSelect={() => does.upload(folder, true)}>Upload a folder…</MenuItem>
        </>
      )}
      {(isFolder || file) && (
        <MenuItem
          hint={isFolder ? "As a zip archive, without files that git ignores" : undefined}
          onSelect={() => window.location.assign(downloadOf(w.id, one?.path ?? "", isFolder))}
        >
          Download
        </MenuItem>
      )}
      {editors.map((e) => (
        <MenuItem key={e.name} onSelect={() => window.location.assign(e.url)}>
          Open in {e.name}
        </MenuItem>
      ))}
      {editors.length === 0 && (
        <MenuItem disabled hint={WHY_NO_EDITOR} onSelect={() => {}}>
          Open in an editor on your computer
        </MenuItem>
      )}
      {one && (
        <>
          <MenuItem
            onSelect={() =>
              void navigator.clipboard.writeText(one.path).then(
                () => toast({ kind: "good", title: "Path copied" }),
                () => toast({ kind: "bad", title: "The browser did not allow copying" }),
              )
            }
          >
            Copy path
          </MenuItem>
          {can && (
            <>
              <MenuLine />
              <MenuItem keys="f2" onSelect={() => does.rename(one)}>
                Rename or move…
              </MenuItem>
              <MenuItem danger keys="delete" onSelect={() => does.remove(one)}>
                Delete
              </MenuItem>
            </>
          )}
        </>
      )}
    </MenuOverlay>
  );
}
