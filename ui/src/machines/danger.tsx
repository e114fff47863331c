import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Workspace } from "@/api/client";
import { cx } from "@/kit/cx";

export const DANGER = t`No isolation: commands run directly on the machine, with all rights of the user who connected it.`;

/** Marks a machine without isolation, and its workspaces, wherever they are shown. */
export function Danger({ short, className }: { short?: boolean; className?: string }) {
  return (
    <strong
      title={t`DANGEROUS: ${DANGER}`}
      className={cx(
        "shrink-0 rounded-sm border border-failed px-1 text-micro leading-4 font-semibold whitespace-nowrap text-failed",
        className,
      )}
    >
      <span aria-hidden>▲</span>
      <span className={short ? "sr-only" : "ml-0.5"}>
        <Trans>DANGEROUS</Trans>
      </span>
      <span className="sr-only">
        <Trans>: not isolated</Trans>
      </span>
    </strong>
  );
}

/** Whether a workspace lives on a machine that isolates nothing. */
export const onDangerous = (w: Pick<Workspace, "runner_id" | "boundary">): boolean =>
  Boolean(w.runner_id) && w.boundary === "none";
