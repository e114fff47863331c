import type { Change, Schemas } from "@/api/client";

export type Entry = Pick<Schemas["File"], "path" | "name" | "type" | "size" | "link" | "ignored">;

/** What is known of a folder; neither items nor error: it is being read. */
export interface Listing {
  items?: readonly Entry[];
  truncated?: boolean;
  error?: unknown;
}

export type FilesRow = {
  /** Its path; of a note, its folder's path with a slash, so that no two rows have the same. */
  path: string;
  name: string;
  depth: number;
  size: number;
  at: number;
} & (
  | { kind: "folder"; open: boolean; changed: boolean; ignored?: boolean }
  | { kind: "file"; entry: Entry; status: string | undefined }
  | { kind: "note"; note: "loading" | "empty" | "truncated" | "failed"; shown: number; error?: unknown }
);

/** The status of each changed file, and the folders such files are in. */
export interface Marks {
  files: ReadonlyMap<string, string>;
  folders: ReadonlySet<string>;
}

export function marksOf(changes: readonly Pick<Change, "path" | "old_path" | "status">[]): Marks {
  const files = new Map<string, string>();
  const folders = new Set<string>();
  for (const c of changes) {
    // The change list says "added" for both; whether git tracks a new file is shown in the commit view.
    files.set(c.path, c.status === "untracked" ? "added" : c.status);
    for (const f of foldersOf(c.path)) folders.add(f);
  }
  for (const c of changes) if (c.old_path && !files.has(c.old_path)) files.set(c.old_path, "deleted");
  return { files, folders };
}

/** The folders a path is in, the outermost first: of "a/b/c" they are "a" and "a/b". */
export function foldersOf(path: string): string[] {
  const out: string[] = [];
  for (let i = path.indexOf("/"); i > 0; i = path.indexOf("/", i + 1)) out.push(path.slice(0, i));
  return out;
}

/** Listings of nothing but some files, with the folders they are in: those of a filter. */
export function listingsOf(paths: readonly string[]): Map<string, Listing> {
  const out = new Map<string, { items: Entry[] }>([["", { items: [] }]]);
  const add = (path: string, type: Entry["type"]) => {
    const cut = path.lastIndexOf("/");
    const folder = path.slice(0, Math.max(0, cut));
    if (!out.has(folder)) {
      out.set(folder, { items: [] });
      add(folder, "dir");
    }
    out.get(folder)!.items.push({ path, name: path.slice(cut + 1), type, size: 0 });
  };
  for (const path of paths) add(path, "file");
  return out;
}

/** The open folders that can be seen, with the root "": those in a closed one are not read. */
export function seenFolders(open: ReadonlySet<string>): string[] {
  return ["", ...[...open].filter((p) => foldersOf(p).every((f) => open.has(f))).sort()];
}

/** Folders whose entries may have changed: a file was added, removed, or changed its type. */
export function staleFolders(before: Marks, after: Marks): Set<string> {
  const out = new Set<string>();
  const entry = (m: Marks, path: string) => {
    const status = m.files.get(path);
    return status === "modified" || status === "conflicted" ? undefined : status;
  };
  for (const path of new Set([...before.files.keys(), ...after.files.keys()])) {
    if (entry(before, path) === entry(after, path)) continue;
    out.add("");
    for (const f of foldersOf(path)) out.add(f);
  }
  return out;
}

const collator = new Intl.Collator("en", { numeric: true });
const byName = (a: Entry, b: Entry) => collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);

/**
 * The rows of the tree, folders first. With a filter, those of the listings read so far whose path holds it, in whatever case, with the
 * folders they are in; a folder that is closed is then open where something in it was found.
 */
export function filesRows(
  listings: ReadonlyMap<string, Listing>,
  open: ReadonlySet<string>,
  marks: Marks,
  filter = "",
): FilesRow[] {
  const wanted = filter.trim().toLowerCase();
  const fits = (e: Entry) => !wanted || e.path.toLowerCase().includes(wanted);
  const write = (path: string, depth: number): FilesRow[] => {
    const folder = listings.get(path);
    const note = (what: "loading" | "empty" | "truncated" | "failed", at = 1, shown = 0): FilesRow => {
      const place = { path: `${path}/`, name: "", depth, size: at, at };
      return { ...place, kind: "note", note: what, shown, error: folder?.error };
    };
    if (!folder?.items) return wanted ? [] : [note(folder?.error ? "failed" : "loading")];
    const sorted = [...folder.items].sort(byName);
    const found = sorted
      .filter((e) => e.type === "dir")
      .flatMap((entry) => {
        const inside = wanted && listings.get(entry.path)?.items ? write(entry.path, depth + 1) : [];
        return inside.length > 0 || fits(entry) ? { entry, inside } : [];
      });
    const files = sorted.filter((e) => e.type !== "dir" && fits(e));
    const cut = folder.truncated && !wanted ? 1 : 0;
    const size = found.length + files.length + cut;
    if (size === 0) return wanted ? [] : [note("empty")];
    const out: FilesRow[] = [];
    found.forEach(({ entry: { path: at, name, ignored }, inside }, i) => {
      const isOpen = wanted ? inside.length > 0 : open.has(at);
      const changed = marks.folders.has(at);
      out.push({ kind: "folder", path: at, name, depth, open: isOpen, changed, ignored, size, at: i + 1 });
      for (const row of wanted ? inside : isOpen ? write(at, depth + 1) : []) out.push(row);
    });
    files.forEach((entry, i) => {
      const status = marks.files.get(entry.path);
      out.push({
        kind: "file",
        path: entry.path,
        name: entry.name,
        depth,
        entry,
        status,
        size,
        at: found.length + i + 1,
      });
    });
    if (cut) out.push(note("truncated", size, folder.items.length));
    return out;
  };
  return write("", 0);
}
