import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";

/** A way to open something in an editor on the person's own computer. */
export interface EditorLink {
  name: string;
  url: string;
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;

const encoded = (path: string) => path.split("/").map(encodeURIComponent).join("/");

/**
 * The editors that can open a path of a workspace, by the addresses they answer to. The folder is on the server: a browser on the same
 * computer opens it as it is, another one over SSH to the server's name. There are none where the server has no folder that agents work
 * in, or does not tell this person which it is.
 */
export function editorLinks(w: Pick<Workspace, "path">, path: string, host = window.location.hostname): EditorLink[] {
  if (!w.path) return [];
  const full = path ? `${w.path}/${path}` : w.path;
  if (LOOPBACK.test(host))
    return [
      { name: t`VS Code`, url: `vscode://file${encoded(full)}` },
      { name: t`Cursor`, url: `cursor://file${encoded(full)}` },
      { name: t`IntelliJ IDEA`, url: `idea://open?file=${encodeURIComponent(full)}` },
    ];
  const remote = `vscode-remote/ssh-remote+${encodeURIComponent(host)}${encoded(full)}`;
  return [
    { name: t`VS Code over SSH`, url: `vscode://${remote}` },
    { name: t`Cursor over SSH`, url: `cursor://${remote}` },
  ];
}
