import type { Schemas } from "@/api/client";
import { plural } from "@/format/text";

/** What a snapshot holds, in words. */
export function snapshotSummary(s: Schemas["Snapshot"] | null): string {
  if (!s) return "no unmerged work";
  const parts = [
    s.uncommitted > 0 && plural(s.uncommitted, "uncommitted file"),
    s.unmerged > 0 && plural(s.unmerged, "unmerged commit"),
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join(" and ")} saved` : "all work was merged";
}
