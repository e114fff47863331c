import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { count } from "@/format/text";
import { useTeam } from "@/state/team";

const TAB =
  "-mb-px flex min-h-10 items-center gap-1.5 border-b-2 border-transparent whitespace-nowrap text-fg2 -outline-offset-2 hover:text-fg aria-[current=page]:border-accent aria-[current=page]:text-fg pointer-coarse:min-h-11";

/** Above files: the changed ones, all, or a search in them. */
export function FilesSwitch({
  workspace: w,
  on,
  changed,
  path,
}: {
  workspace: Workspace;
  on: "changed" | "all" | "find";
  changed: number;
  /** The file that is open: it stays so on the other side. */
  path?: string;
}) {
  const params = { team: useTeam().slug, key: w.key };
  const current = (is: boolean) => (is ? "page" : undefined);
  return (
    <nav aria-label={t`Files`} className="flex gap-5 border-b border-hairline bg-bg1 px-3">
      <Link
        to="/$team/w/$key"
        params={params}
        search={(s) => (on === "changed" ? s : { tab: "changes" as const, file: path })}
        aria-current={current(on === "changed")}
        className={TAB}
      >
        <Trans>Changed files</Trans>
        {changed > 0 && <span className="tabular-nums">{count(changed)}</span>}
      </Link>
      <Link
        to="/$team/w/$key/edit"
        params={params}
        search={(s) => (on === "all" ? s : on === "find" ? { ...s, find: undefined } : {})}
        preload={false}
        activeOptions={{ exact: true, includeSearch: true }}
        aria-current={current(on === "all")}
        className={TAB}
      >
        <Trans>All files</Trans>
      </Link>
      <Link
        to="/$team/w/$key/edit"
        params={params}
        search={(s) =>
          on === "find" ? s : on === "all" ? { ...s, find: true as const } : { path, find: true as const }
        }
        preload={false}
        activeOptions={{ exact: true, includeSearch: true }}
        aria-current={current(on === "find")}
        className={TAB}
      >
        <Trans>Search</Trans>
      </Link>
    </nav>
  );
}
