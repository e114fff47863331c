import { plural, t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";

/** "conflicts with PW-17 in 2 files", wherever a workspace shows; short: a sign with the words behind it. */
export function OverlapMark({
  workspace: w,
  short,
}: {
  workspace: Pick<Workspace, "overlaps" | "archived_at">;
  short?: boolean;
}) {
  const all = w.overlaps ?? [];
  const first = all[0];
  if (!first || w.archived_at) return null;
  const words =
    all.length === 1
      ? t`conflicts with ${first.key} in ${plural(first.files, { one: "# file", other: "# files" })}`
      : t`conflicts with ${first.key} and ${plural(all.length - 1, { one: "# other", other: "# others" })}`;
  return (
    <span title={words} className="inline-flex shrink-0 items-center gap-1 text-meta whitespace-nowrap text-needs">
      <span aria-hidden>⚠</span>
      <span className={short ? "sr-only" : undefined}>{words}</span>
    </span>
  );
}
