import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useWaiting } from "@/inbox/inbox";
import { perform } from "@/keys/keyboard";
import { Icon } from "@/kit/icon";
import { useTeam } from "@/state/team";

const ITEM =
  "flex min-h-12 pointer-fine:short:min-h-9 short:flex-row pointer-coarse:min-h-11 min-w-0 flex-auto flex-col items-center justify-center gap-0.5 px-0.5 text-micro text-fg2 -outline-offset-2 data-[status=active]:text-accent";

const LABEL = "max-w-full truncate";

/** Main navigation on phones. */
export function BottomBar() {
  const team = useTeam();
  const params = { team: team.slug };
  const needs = useWaiting(team.slug);
  return (
    <nav
      aria-label={t`Main`}
      className="flex border-t border-hairline bg-bg1 pb-[env(safe-area-inset-bottom)] md:hidden squeezed:hidden"
    >
      <Link to="/$team/inbox" params={params} className={ITEM}>
        <span className="relative">
          <Icon name="inbox" size={18} />
          {needs > 0 && (
            <span
              aria-hidden
              className="absolute -top-1.5 left-3 min-w-4 rounded-full bg-needs px-1 text-center text-micro leading-4 font-semibold text-bg0 tabular-nums"
            >
              {needs > 99 ? "99+" : needs}
            </span>
          )}
        </span>
        <span className={LABEL}>
          <Trans>Inbox</Trans>
          {needs > 0 && (
            <span className="sr-only">
              <Trans>, {needs} waiting for you</Trans>
            </span>
          )}
        </span>
      </Link>
      <Link to="/$team/w" params={params} className={ITEM}>
        <Icon name="workspaces" size={18} />
        <span className={LABEL}>
          <Trans>Workspaces</Trans>
        </span>
      </Link>
      <Link to="/$team/tasks" params={params} className={ITEM}>
        <Icon name="tasks" size={18} />
        <span className={LABEL}>
          <Trans>Tasks</Trans>
        </span>
      </Link>
      <Link to="/$team/p" params={params} className={ITEM}>
        <Icon name="project" size={18} />
        <span className={LABEL}>
          <Trans>Projects</Trans>
        </span>
      </Link>
      {team.can("workspace.create") && (
        <button type="button" className={ITEM} onClick={() => perform("workspace.new")}>
          <Icon name="plus" size={18} />
          <span className={LABEL}>
            <Trans>New</Trans>
          </span>
        </button>
      )}
      <Link to="/$team/settings/{-$section}" params={{ ...params, section: undefined }} className={ITEM}>
        <Icon name="gear" size={18} />
        <span className={LABEL}>
          <Trans>Settings</Trans>
        </span>
      </Link>
    </nav>
  );
}
