import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { listed } from "@/format/text";

/** What a snapshot holds, in words. */
export function snapshotSummary(s: Schemas["Snapshot"] | null): string {
  if (!s) return t`no unmerged work`;
  const parts = [
    s.uncommitted > 0 && plural(s.uncommitted, { one: "# uncommitted file", other: "# uncommitted files" }),
    s.unmerged > 0 && plural(s.unmerged, { one: "# unmerged commit", other: "# unmerged commits" }),
  ].filter((p) => p !== false);
  return parts.length > 0 ? t`${listed(parts)} saved` : t`all work was merged`;
}
