import type { ChangedFile } from "./types";

/** A row of the tree of files: a folder, or a file of it. */
export type TreeRow =
  | {
      kind: "folder";
      path: string;
      name: string;
      depth: number;
      open: boolean;
      files: number;
      additions: number;
      deletions: number;
      viewed: number;
      size: number;
      at: number;
    }
  | { kind: "file"; path: string; name: string; depth: number; file: ChangedFile; size: number; at: number };

interface Folder {
  path: string; // with its slash; "" is the root
  name: string;
  folders: Map<string, Folder>;
  files: { name: string; file: ChangedFile }[];
}

/**
 * The files as a tree, folders first, as the rows of a list. A folder that holds one folder only is written together with it. `closed`
 * names folders that are shut; `size` and `at` say how many a row's parent holds and which of them it is.
 */
export function treeRows(
  files: readonly ChangedFile[],
  closed: ReadonlySet<string>,
  isViewed: (f: ChangedFile) => boolean,
): TreeRow[] {
  const root: Folder = { path: "", name: "", folders: new Map(), files: [] };
  for (const file of files) {
    let at = root;
    const parts = file.path.split("/");
    for (let i = 0; i < parts.length - 1; i++) {
      const name = parts[i]!;
      let next = at.folders.get(name);
      if (!next) {
        next = { path: `${at.path}${name}/`, name, folders: new Map(), files: [] };
        at.folders.set(name, next);
      }
      at = next;
    }
    at.files.push({ name: parts.at(-1)!, file });
  }
  const out: TreeRow[] = [];
  const write = (folder: Folder, depth: number) => {
    const folders = [...folder.folders.values()].map(together).sort((a, b) => order(a.name, b.name));
    const own = folder.files.sort((a, b) => order(a.name, b.name));
    const size = folders.length + own.length;
    folders.forEach((f, i) => {
      const open = !closed.has(f.path);
      out.push({ kind: "folder", path: f.path, name: f.name, depth, open, ...sums(f, isViewed), size, at: i + 1 });
      if (open) write(f, depth + 1);
    });
    own.forEach(({ name, file }, i) => {
      out.push({ kind: "file", path: file.path, name, depth, file, size, at: folders.length + i + 1 });
    });
  };
  write(root, 0);
  return out;
}

function together(f: Folder): Folder {
  let at = f;
  let name = f.name;
  while (at.files.length === 0 && at.folders.size === 1) {
    at = at.folders.values().next().value!;
    name += `/${at.name}`;
  }
  return { ...at, name };
}

const collator = new Intl.Collator("en", { numeric: true });
const order = (a: string, b: string): number => collator.compare(a, b) || (a < b ? -1 : 1);

function sums(f: Folder, isViewed: (f: ChangedFile) => boolean) {
  let files = 0;
  let viewed = 0;
  let additions = 0;
  let deletions = 0;
  const add = (g: Folder) => {
    for (const { file } of g.files) {
      files++;
      additions += file.additions;
      deletions += file.deletions;
      if (isViewed(file)) viewed++;
    }
    for (const sub of g.folders.values()) add(sub);
  };
  add(f);
  return { files, viewed, additions, deletions };
}

/** The files in the order the tree shows them, so that both sides of the page go together. */
export function inTreeOrder(files: readonly ChangedFile[]): ChangedFile[] {
  return treeRows(files, new Set(), () => false).flatMap((r) => (r.kind === "file" ? [r.file] : []));
}
