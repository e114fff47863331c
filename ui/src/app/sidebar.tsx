import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { workspacesQuery } from "@/api/queries";
import { costOf } from "@/costs/workspace-cost";
import { cx } from "@/kit/cx";
import { Shape } from "@/kit/mark";
import { Counts, Failure, Skeleton } from "@/kit/states";
import { Danger, onDangerous } from "@/machines/danger";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import { useTeam } from "@/state/team";
import { GROUP_NAMES, type Group, type Grouped, grouped } from "@/workspaces/groups";
import { PrivateMark } from "@/workspaces/private-mark";

/** The team's workspaces, those that need attention first. */
export function Sidebar() {
  const team = useTeam();
  const list = useQuery(workspacesQuery(team.slug));
  return (
    <nav
      aria-label="Workspaces by state"
      className="hidden w-(--sidebar-w) shrink-0 overflow-y-auto border-r border-hairline bg-bg1 py-2 md:block"
    >
      {list.isPending ? (
        <Skeleton rows={5} label="Loading workspaces" />
      ) : list.isError && !list.data ? (
        <Failure
          className="m-3"
          what="The workspaces could not be loaded."
          error={list.error}
          retry={() => void list.refetch()}
        />
      ) : list.data.length === 0 ? (
        <p className="px-4 py-2 text-fg3">No workspaces yet.</p>
      ) : (
        grouped(list.data).map((g) => (
          <GroupRows
            key={g.group}
            {...g}
            team={team.slug}
            many={new Set(list.data.map((w) => w.project_id)).size > 1}
          />
        ))
      )}
    </nav>
  );
}

/** Show the reason where it is more useful than the project name. */
const SAYS_WHY: ReadonlySet<Group> = new Set(["needs", "failed", "stuck", "setup"]);

/** With several projects a row shows its project; with one, its key. */
function GroupRows({ group, items, team, many }: Grouped & { team: string; many: boolean }) {
  return (
    <section aria-label={GROUP_NAMES[group]} className="mb-2">
      <h2 className="px-4 pt-2 pb-1 text-meta text-fg3">
        {GROUP_NAMES[group]} <span className="tabular-nums">{items.length}</span>
      </h2>
      <ul>
        {items.map(({ workspace: w, standing: s }) => (
          <li key={w.id}>
            <Link
              to="/$team/w/$key"
              params={{ team, key: w.key }}
              className={cx(
                "flex items-baseline gap-2 px-4 py-1.5 -outline-offset-2 hover:bg-bg2 in-data-[density=compact]:py-1",
                "aria-[current=page]:bg-bg3 data-[status=active]:bg-bg3",
              )}
              activeOptions={{ includeSearch: false }}
            >
              <Shape kind={s.mark} className="translate-y-px" />
              <span className="min-w-0 flex-1">
                <span className="flex items-baseline gap-1.5">
                  <span className="min-w-0 truncate text-fg">{w.name}</span>
                  <PrivateMark workspace={w} short />
                  {onDangerous(w) && <Danger short />}
                  <OverlapMark workspace={w} short />
                  <PullMark workspace={w} />
                </span>
                <span className="flex gap-1.5 truncate text-meta text-fg3">
                  {s.word !== GROUP_NAMES[group] ? <span>{s.word}</span> : <span className="sr-only">{s.word}</span>}
                  <span className="min-w-0 truncate">
                    {SAYS_WHY.has(s.group) && s.text ? s.text : many ? w.project_name : w.key}
                  </span>
                  {w.changes.files > 0 && <Counts additions={w.changes.additions} deletions={w.changes.deletions} />}
                  {costOf(w) && <span className="tabular-nums">{costOf(w)}</span>}
                </span>
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
