import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactElement, useEffect, useState } from "react";
import type { Workspace } from "@/api/client";
import { visible } from "@/format/text";
import { copyLink } from "@/kit/link";
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

const WHY_NO_EDITOR = t`Its files are in a sandbox or on a machine that the server knows no folder of, or not for you.`;

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
            aria-label={t`File actions`}
            className="pointer-events-none fixed size-0"
            style={{ left: at?.x, top: at?.y }}
          />
        )
      }
    >
      <MenuLabel>{one ? visible(one.path) : t`All files`}</MenuLabel>
      {one && !isFolder && (
        <MenuItem onSelect={() => does.open(one.path)}>
          <Trans>Open</Trans>
        </MenuItem>
      )}
      {can && (
        <>
          <MenuItem onSelect={() => does.newFile(folder)}>
            <Trans>New file…</Trans>
          </MenuItem>
          <MenuItem onSelect={() => does.newFolder(folder)}>
            <Trans>New folder…</Trans>
          </MenuItem>
          <MenuItem onSelect={() => does.upload(folder, false)}>
            <Trans>Upload files…</Trans>
          </MenuItem>
          <MenuItem onSelect={() => does.upload(folder, true)}>
            <Trans>Upload a folder…</Trans>
          </MenuItem>
        </>
      )}
      {(isFolder || file) && (
        <MenuItem
          hint={isFolder ? t`As a zip archive, without files that git ignores` : undefined}
          onSelect={() => window.location.assign(downloadOf(w.id, one?.path ?? "", isFolder))}
        >
          <Trans>Download</Trans>
        </MenuItem>
      )}
      {editors.map((e) => (
        <MenuItem key={e.name} onSelect={() => window.location.assign(e.url)}>
          <Trans>Open in {e.name}</Trans>
        </MenuItem>
      ))}
      {editors.length === 0 && (
        <MenuItem disabled hint={WHY_NO_EDITOR} onSelect={() => {}}>
          <Trans>Open in an editor on your computer</Trans>
        </MenuItem>
      )}
      {one && (
        <>
          {file && (
            <MenuItem onSelect={() => copyLink({ tab: "files", file: one.path, goto: "1:1" }, t`the link`)}>
              <Trans>Copy link</Trans>
            </MenuItem>
          )}
          <MenuItem
            onSelect={() =>
              void navigator.clipboard.writeText(one.path).then(
                () => toast({ kind: "good", title: t`Path copied` }),
                () => toast({ kind: "bad", title: t`The browser did not allow copying` }),
              )
            }
          >
            <Trans>Copy path</Trans>
          </MenuItem>
          {can && (
            <>
              <MenuLine />
              <MenuItem keys="f2" onSelect={() => does.rename(one)}>
                <Trans>Rename or move…</Trans>
              </MenuItem>
              <MenuItem danger keys="delete" onSelect={() => does.remove(one)}>
                <Trans>Delete</Trans>
              </MenuItem>
            </>
          )}
        </>
      )}
    </MenuOverlay>
  );
}
