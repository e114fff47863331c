import { raw } from "@/api/client";
import type { FilePatch } from "./diff/lines";
import { parse } from "./diff/parser";
import type { Source } from "./diff/reading";
import type { Comparison, Side } from "./diff/types";
import { DiffCache } from "./diff-cache";

/** The most lines around a hunk the server gives: the whole file. */
const WHOLE_FILE = 100_000;

const cache = new DiffCache();

/** An immutable name of a state. */
export const fixed = (s: Side): string => s.snapshot_id || s.commit || s.rev;

/** The diffs of a comparison, by the commits of both sides: what they hold never changes. */
export function sourceOf(workspaceId: string, comparison: Comparison, ignoreSpace: boolean): Source {
  let keys: Map<string, string> | undefined;
  const keyOf = (path: string) => {
    keys ??= new Map(
      comparison.files.map((f) => [f.path, `${workspaceId} ${ignoreSpace} ${f.mark} ${f.old_path ?? ""}\n${f.path}`]),
    );
    return keys.get(path) ?? "";
  };
  const ask = async (paths: readonly string[] | undefined, whole: boolean) => {
    const q = new URLSearchParams({ from: fixed(comparison.from), to: fixed(comparison.to) });
    for (const path of paths ?? []) q.append("path", path);
    if (whole) q.set("context", String(WHOLE_FILE));
    if (ignoreSpace) q.set("ignore_space", "true");
    const response = await raw(`/workspaces/${encodeURIComponent(workspaceId)}/compare/patch?${q}`);
    const truncated = response.headers.has("X-Truncated");
    const bytes = new Uint8Array(await response.arrayBuffer());
    return { files: await parse(bytes), truncated };
  };
  return {
    comparison,
    ignoreSpace,
    load: async (paths, whole) => {
      if (whole) return ask(paths, whole);
      const had: FilePatch[] = [];
      const missing = (paths ?? comparison.files.map((f) => f.path)).filter((path) => {
        const patch = cache.get(keyOf(path));
        if (patch) had.push(patch);
        return !patch;
      });
      if (missing.length === 0) return { files: had, truncated: false };
      const got = await ask(had.length > 0 ? missing : paths, whole);
      for (const patch of got.files) cache.put(keyOf(patch.path), patch);
      return { files: [...had, ...got.files], truncated: got.truncated };
    },
  };
}
