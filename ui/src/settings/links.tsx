import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Workspace } from "@/api/client";
import { teamLinksQuery, workspacesQuery } from "@/api/queries";
import { Failure, Skeleton } from "@/kit/states";
import { LinkRow } from "@/sessions/link-row";
import { useTeam } from "@/state/team";

/** Every link with which somebody without a login watches a session of the team. */
export default function LinksSettings() {
  const team = useTeam();
  const list = useQuery(teamLinksQuery(team.slug));
  const works = useQuery(workspacesQuery(team.slug, "all"));
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        <Trans>
          Anyone with one of these links can view one terminal without signing in, and nothing else. Create links in a
          workspace's menu. Expired links stay here for 30 days.
        </Trans>
      </p>
      {list.isPending ? (
        <Skeleton rows={3} label={t`Loading the links`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The links could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <p className="text-fg3">
          <Trans>No shared sessions.</Trans>
        </p>
      ) : (
        <ul aria-label={t`Shared links`} className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((l) => (
            <LinkRow key={l.id} link={l}>
              <Where workspace={works.data?.find((w) => w.id === l.workspace_id)} session={l.session_id} />
            </LinkRow>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The workspace a link leads into, where one may see it. */
function Where({ workspace: w, session }: { workspace: Workspace | undefined; session: string }) {
  const team = useTeam();
  if (!w) return null;
  return (
    <>
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: w.key }}
        search={{ session }}
        className="text-accent underline"
      >
        {w.key} {w.name}
      </Link>{" "}
      ·{" "}
    </>
  );
}
