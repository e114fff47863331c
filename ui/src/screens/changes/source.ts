import { raw } from "@/api/client";
import { parse } from "@/diff/parser";
import type { Source } from "@/diff/reading";
import type { Comparison } from "@/diff/types";

/** The most lines around a hunk the server gives: the whole file. */
const WHOLE_FILE = 100_000;

/** The diffs of a comparison, by the commits of both sides: what they hold never changes. */
export function sourceOf(workspaceId: string, comparison: Comparison, ignoreSpace: boolean): Source {
  return {
    comparison,
    ignoreSpace,
    load: async (paths, whole) => {
      const q = new URLSearchParams({ from: comparison.from.commit, to: comparison.to.commit });
      for (const path of paths ?? []) q.append("path", path);
      if (whole) q.set("context", String(WHOLE_FILE));
      if (ignoreSpace) q.set("ignore_space", "true");
      const response = await raw(`/workspaces/${encodeURIComponent(workspaceId)}/compare/patch?${q}`);
      const truncated = response.headers.has("X-Truncated");
      const bytes = new Uint8Array(await response.arrayBuffer());
      return { files: await parse(bytes), truncated };
    },
  };
}
