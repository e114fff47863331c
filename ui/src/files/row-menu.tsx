import { type ReactElement, useEffect, useState } from "react";
import { downloadOf, parentOf } from "@/files/acts";
import { visible } from "@/format/text";
import { MenuItem, MenuLabel, MenuLine, MenuOverlay } from "@/kit/menu-parts";
import { toast } from "@/state/toasts";
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
  workspace: string;
  target: MenuTarget;
  can: boolean;
  does: RowDoes;
  trigger?: ReactElement<object>;
  onClose: () => void;
}

/** What can be done to a row of the tree, or to the whole workspace. */
export default function RowMenu({ workspace, target: { row, at }, can, does, trigger, onClose }: Props) {
  // Open only once it is drawn: what it hangs on must be there first.
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(true), []);
  const folder = !row || row.kind === "note" ? "" : row.kind === "folder" ? row.path : parentOf(row.path);
  const one = row && row.kind !== "note" ? row : undefined;
  const isFolder = !one || one.kind === "folder";
  const file = one?.kind === "file" && one.entry.type === "file";
  return (
    <MenuOverlay
      align={at ? "start" : "end"}
      open={open}
      onOpenChange={(on) => {
        setOpen(on);
        if (!on) onClose();
      }}
      trigger={trigger ?? <span className="fixed size-0" style={{ left: at?.x, top: at?.y }} />}
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
          onSelect={() => window.location.assign(downloadOf(workspace, one?.path ?? "", isFolder))}
        >
          Download
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
