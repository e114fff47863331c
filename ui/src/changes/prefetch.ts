import type { QueryClient } from "@tanstack/react-query";
import { compareQuery } from "@/api/queries";
import { warmUp as warmColors } from "@/highlight/highlight";
import { isBoolean, recall } from "@/state/remember";
import { warmUp } from "./diff/parser";
import { Reading } from "./diff/reading";
import { inTreeOrder } from "./diff/tree";
import { EVERYTHING } from "./sides";
import { sourceOf } from "./source";

/** Prefetches a workspace's changes, so the first screen is ready when the user opens them. */
export async function prefetchChanges(client: QueryClient, workspaceId: string): Promise<void> {
  warmUp();
  const ignoreSpace = recall("diff.ignoreSpace", isBoolean) ?? false;
  try {
    const { comparison } = await client.fetchQuery(
      compareQuery(workspaceId, EVERYTHING.from, EVERYTHING.to, ignoreSpace),
    );
    if (comparison.files.length === 0) return;
    warmColors();
    await Reading.first(sourceOf(workspaceId, { ...comparison, files: inTreeOrder(comparison.files) }, ignoreSpace));
  } catch {
    // the changes tab shows the error when opened
  }
}
