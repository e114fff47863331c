import type { ChangeSet } from "@/api/client";
import { raw } from "@/api/client";
import type { FilePatch } from "@/diff/lines";
import { parse } from "@/diff/parser";
import type { Source } from "@/diff/reading";
import { inTreeOrder } from "@/diff/tree";
import type { ChangedFile, Comparison, Folded } from "@/diff/types";

const LOCK =
  /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|Cargo\.lock|poetry\.lock|uv\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock)$/;
const GENERATED = /\.(min\.(js|css)|map|snap)$|\.(pb|gen)\.go$/;

/** The changes of a workspace as they were seen last, as a comparison with its base. */
export function comparisonOf(set: ChangeSet): Comparison {
  const files = set.items.map((c): ChangedFile => {
    const status = c.status === "untracked" ? "added" : c.status === "conflicted" ? "modified" : c.status;
    const lines = c.additions + c.deletions;
    const folded: Folded = c.binary
      ? "binary"
      : status === "deleted"
        ? "deleted"
        : LOCK.test(c.path)
          ? "lock"
          : GENERATED.test(c.path)
            ? "generated"
            : lines > 800
              ? "huge"
              : "";
    // Without a hash (too large to be read) only the version of the whole set tells states apart.
    const content = c.hash || (status === "deleted" ? "gone" : `v${set.version}`);
    return {
      path: c.path,
      old_path: c.old_path,
      status,
      mode: c.mode,
      old_mode: c.old_mode,
      mark: [set.base_commit, status, c.old_path ?? "", c.old_mode, c.mode, c.size, content].join(":"),
      additions: c.additions,
      deletions: c.deletions,
      size: c.size,
      binary: c.binary,
      folded,
      viewed: false,
    };
  });
  return {
    from: { rev: "base", commit: set.base_commit, at: 0, label: "base" },
    to: { rev: "now", commit: `${set.version}`, at: set.synced_at ?? 0, label: "now" },
    files: inTreeOrder(files),
    additions: files.reduce((n, f) => n + f.additions, 0),
    deletions: files.reduce((n, f) => n + f.deletions, 0),
    truncated: false,
    newer: 0,
  };
}

/** The diffs of such a comparison, one by one. */
export function liveSource(workspaceId: string, comparison: Comparison): Source {
  return {
    comparison,
    ignoreSpace: false,
    load: async (paths, whole) => {
      const files: FilePatch[] = [];
      for (const path of paths ?? comparison.files.filter((f) => f.folded === "").map((f) => f.path)) {
        const q = new URLSearchParams({ path, context: whole ? "100000" : "3" });
        const response = await raw(`/workspaces/${encodeURIComponent(workspaceId)}/diff?${q}`);
        for (const p of await parse(new Uint8Array(await response.arrayBuffer()))) files.push({ ...p, path });
      }
      return { files, truncated: false };
    },
  };
}
