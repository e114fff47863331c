import { type UseQueryResult, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import type { Schemas } from "@/api/client";
import { changesQuery, keys, treeQuery } from "@/api/queries";
import { type Listing, type Marks, marksOf, seenFolders, staleFolders } from "./rows";

/** How long changes are gathered before folders are read again, in ms: an agent writes many files at once. */
const GATHER_MS = 500;

interface Files {
  listings: ReadonlyMap<string, Listing>;
  marks: Marks;
  changed: number;
  /** They are the server's copy: the sandbox does not run. */
  copy: boolean;
  /** Reads a folder again, or with nothing named all that are shown. */
  refresh: (folder?: string) => void;
  busy: boolean;
}

/** The visible folders of a workspace, each loaded when opened, and reloaded when files are added or removed. */
export function useFiles(workspace: string, open: ReadonlySet<string>): Files {
  const client = useQueryClient();
  const folders = useMemo(() => seenFolders(open), [open]);
  const combine = useCallback(
    (results: UseQueryResult<Schemas["FileList"]>[]) => ({
      listings: new Map<string, Listing>(
        results.map((r, i) => [
          folders[i]!,
          {
            items: r.data?.items,
            truncated: r.data?.truncated,
            error: r.isError && !r.isFetching ? r.error : undefined,
          },
        ]),
      ),
      busy: results.some((r) => r.isFetching),
      copy: results.some((r) => r.data?.copy),
    }),
    [folders],
  );
  const { listings, busy, copy } = useQueries({ queries: folders.map((f) => treeQuery(workspace, f)), combine });

  const changes = useQuery(changesQuery(workspace));
  const items = changes.data?.items;
  const marks = useMemo(() => marksOf(items ?? []), [items]);
  const read = useRef<Marks>(undefined);
  useEffect(() => {
    if (!items) return;
    const before = read.current;
    if (!before) {
      read.current = marks;
      return;
    }
    const timer = setTimeout(() => {
      read.current = marks;
      for (const f of staleFolders(before, marks))
        void client.invalidateQueries({ queryKey: keys.tree(workspace, f), exact: true });
    }, GATHER_MS);
    return () => clearTimeout(timer);
  }, [client, workspace, items, marks]);

  const refresh = useCallback(
    (folder?: string) =>
      void client.invalidateQueries(
        folder === undefined
          ? { queryKey: ["workspace", workspace, "tree"] }
          : { queryKey: keys.tree(workspace, folder), exact: true },
      ),
    [client, workspace],
  );
  return { listings, marks, changed: items?.length ?? 0, copy, refresh, busy };
}
