import { raw } from "@/api/client";
import { parse } from "@/diff/parser";
import type { Source } from "@/diff/reading";
import type { Comparison, Side } from "@/diff/types";

/** The most lines around a hunk the server gives: the whole file. */
const WHOLE_FILE = 100_000;

/** The name of a state that means the same for ever. */
export const fixed = (s: Side): string => s.snapshot_id || s.commit || s.rev;

/** The diffs of a comparison, by the commits of both sides: what they hold never changes. */
export function sourceOf(workspaceId: string, comparison: Comparison, ignoreSpace: boolean): Source {
  return {
    comparison,
    ignoreSpace,
    load: async (paths, whole) => {
      const q = new URLSearchParams({ from: fixed(comparison.from), to: fixed(comparison.to) });
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
