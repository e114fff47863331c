import type { Schemas } from "@/api/client";
import { plural } from "@/format/text";

/** What a snapshot kept, in words. */
export function keptWords(s: Schemas["Snapshot"] | null): string {
  if (!s) return "nothing was left to keep";
  const parts = [
    s.uncommitted > 0 && plural(s.uncommitted, "uncommitted file"),
    s.unmerged > 0 && plural(s.unmerged, "unmerged commit"),
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join(" and ")} kept` : "all work was merged";
}
