import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Workspace } from "@/api/client";
import { Icon } from "@/kit/icon";

/** Says that a workspace is its owner's alone, wherever it shows. */
export function PrivateMark({
  workspace: w,
  short,
}: {
  workspace: Pick<Workspace, "private" | "owner">;
  short?: boolean;
}) {
  if (!w.private) return null;
  return (
    <span
      title={t`Private: only ${w.owner.name} can see it`}
      className="inline-flex shrink-0 items-center gap-0.5 self-center text-micro whitespace-nowrap text-fg3"
    >
      <Icon name="lock" size={12} />
      <span className={short ? "sr-only" : undefined}>
        <Trans>Private</Trans>
      </span>
    </span>
  );
}
